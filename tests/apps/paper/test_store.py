"""A cell is in the store completely, or not at all."""

import json
from pathlib import Path

import pytest
from reproduction import Cell, CellStore

from dubhe_flwr.errors import DataError

CELL = Cell("study", "10/1.5, greedy", {"seed": 3})


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    """With the cell itself, so that the file can be read alone."""
    store = CellStore(tmp_path / "new")
    assert store.load(CELL) is None
    store.save(CELL, {"emd": [0.1]}, {"device": "cpu"})
    content = store.load(CELL)
    assert content is not None
    assert content["result"] == {"emd": [0.1]}
    assert content["provenance"] == {"device": "cpu"}
    assert content["cell"] == {"kind": "study", "name": CELL.name, "config": {"seed": 3}}
    assert store.load_all([CELL, Cell("study", "other", {})]) == {CELL.key: content}


def test_an_interrupted_save_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a part of the file nor a scratch file is left."""
    store = CellStore(tmp_path)
    store.save(CELL, {"emd": 1}, {})

    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.save(CELL, {"emd": 2}, {})
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [store.path(CELL).name]
    assert json.loads(store.path(CELL).read_text(encoding="utf-8"))["result"] == {"emd": 1}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"result": 1}'])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    """The remedy is to delete it."""
    store = CellStore(tmp_path)
    store.path(CELL).parent.mkdir()
    store.path(CELL).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="delete it, and it is measured again"):
        store.load(CELL)
