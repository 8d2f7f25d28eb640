"""Overhead is measured on the real encryption."""

from reproduction.overhead import encryption_cell

from dubhe_flwr.experiments.settings import MachineSettings


def test_packed_ciphertexts_are_smaller_than_one_for_each_element() -> None:
    """A ciphertext has twice the bytes of the key, and 56 counters of 10 bits fit two of 512."""
    cell = encryption_cell(repetitions=1, key_bits=512)
    result = cell.measure(MachineSettings(), lambda _share: None).result
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
