"""Overhead is measured on the real encryption and the real protocol."""

from reproduction import Method, Resources
from reproduction.encrypting import (
    encryption_cell,
    exchange_cell,
    measure_encryption,
    measure_exchange,
)


def ignore(_share: float) -> None:
    """Take no note of the progress."""


def test_packed_ciphertexts_are_smaller_than_one_for_each_element() -> None:
    """A ciphertext has twice the bytes of the key, and 56 counters of 10 bits fit two of 512."""
    cell = encryption_cell(repetitions=1, key_bits=512)
    result = measure_encryption(cell.config, Resources(), ignore).result
    registry = result["registry of 56"]
    assert registry["by_element"]["bytes"] == 56 * 128
    assert registry["packed"]["bytes"] == 2 * 128
    assert set(result) == {
        "key_generation_seconds",
        "registry of 56",
        "registry of 53",
        "p_l of 10 classes",
        "p_l of 52 classes",
    }
    for name, ways in result.items():
        if name != "key_generation_seconds":
            for way in ways.values():
                assert way["encrypt_seconds"] > 0
                assert way["decrypt_seconds"] > 0


def test_messages_are_those_of_the_protocol() -> None:
    """The first round registers all clients; later ones do not."""
    cell = exchange_cell(
        Method("dubhe-paper", 2), num_clients=20, num_participants=5, num_rounds=2, key_bits=512
    )
    rounds = measure_exchange(cell.config, Resources(), ignore).result["rounds"]
    assert len(rounds) == 2
    stages = [{stage["stage"]: stage for stage in of["stages"]} for of in rounds]
    assert stages[0]["register"]["messages"] == 20
    assert stages[0]["register"]["bytes_up"] > 20 * 2 * 128
    assert "register" not in stages[1]
