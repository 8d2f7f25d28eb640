"""The overhead is measured with real encryption."""

from dubhe_lab.experiments.settings import MachineSettings
from dubhe_lab.paper.overhead import encryption_cell


def test_packed_ciphertexts_are_smaller_than_one_for_each_element() -> None:
    """A ciphertext is twice as long as the key, and two of 512 bits hold 56 counters of 10 bits."""
    cell = encryption_cell(repetitions=1, key_bits=512)
    result = dict(cell.measure(MachineSettings(), lambda _share: None).result)
    registry = result["registry of 56"]
    assert registry["by_element"]["bytes"] == 56 * 128
    assert registry["packed"]["bytes"] == 2 * 128
    assert result.pop("key_generation_seconds") > 0
    wanted = ["registry of 56", "registry of 53", "p_l of 10 classes", "p_l of 52 classes"]
    assert sorted(result) == sorted(wanted)
    ways = [way for of in result.values() for way in of.values()]
    assert all(way["encrypt_seconds"] > 0 and way["decrypt_seconds"] > 0 for way in ways)
