"""A cell is known by its settings alone."""

from reproduction import Cell


def test_the_order_of_settings_does_not_matter() -> None:
    """The same settings give the same file."""
    one = Cell("study", "name", {"a": 1, "b": [2]})
    assert one.key == Cell("study", "name", {"b": [2], "a": 1}).key


def test_every_setting_and_the_kind_matter() -> None:
    """Whatever differs has a file of its own, whatever its name."""
    keys = {
        Cell(kind, "name", config).key
        for kind in ("study", "registry")
        for config in ({"a": 1}, {"a": 2}, {"a": 1, "b": 1})
    }
    assert len(keys) == 6
    assert len({key.rpartition("-")[2] for key in keys}) == 6


def test_the_key_is_a_path() -> None:
    """No character that a file system might refuse."""
    key = Cell("training", "CIFAR10-10/1.5, dubhe-paper, H=1: é", {}).key
    assert key.startswith("training/cifar10-10-1.5-dubhe-paper-h=1-")
    assert key.count("/") == 1
