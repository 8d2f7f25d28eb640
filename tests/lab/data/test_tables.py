"""Tables as people have them: each is read exactly, or refused in a sentence with a remedy."""

import json
import re
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dubhe_flwr.errors import DataError
from dubhe_lab.data.tables import LabelCounts, load_label_counts

TABLES = json.loads(Path(__file__).with_name("tables.json").read_text(encoding="utf-8"))
"""A name, what people have, what they say about it, and the counts or a part of the refusal."""

COUNTS = [[5, 0, 2], [1, 7, 0], [0, 9, 9], [5, 3, 1]]
CODES = [107, 114, 201, 230]
FRAME = pd.DataFrame(COUNTS, columns=["cat", "dog", "cow"])
NAMED = FRAME.set_axis(["north", "south", "east", "west"])
NUMBERED = pd.concat([pd.Series(CODES, name="client"), FRAME], axis=1)
MANY = np.random.default_rng(0).integers([1, 0, 0], [10, 9, 9], (60, 3))
NO_CLASS = "may not count the samples of a class"


def samples(table: Any, clients: Any = None) -> pd.DataFrame:
    """Return a row for each sample of a table of counts, shuffled."""
    rows, columns = np.nonzero(counts := np.asarray(table))
    people = np.arange(len(counts)) if clients is None else clients
    own = pd.DataFrame({"client": people[rows], "label": columns})
    return own.loc[own.index.repeat(counts[rows, columns])].sample(frac=1, random_state=1)


def crosstab(table: Any, clients: Any = None) -> pd.DataFrame:
    """Count the samples of a table again, as people do."""
    own = samples(table, clients)
    return pd.crosstab(own.client, own.label)


def read_text(text: str, **options: Any) -> LabelCounts:
    """Read what a file would hold."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda *_, **__: StringIO(text).read())
        return load_label_counts("counts.csv", **options)


def check(source: Any, expected: Any, **options: Any) -> None:
    """Check that a table is read exactly, or refused in one sentence that holds these words."""
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected) as error:
            load_label_counts(source, **options)
        assert re.fullmatch(r"[^\n]+\.", str(error.value))
    else:
        assert load_label_counts(source, **options).counts.tolist() == expected


@pytest.mark.parametrize("table", [pytest.param(own, id=own["name"]) for own in TABLES])
def test_tables_as_people_have_them(table: dict[str, Any], tmp_path: Path) -> None:
    """Each is read exactly, or refused in one sentence."""
    options = table.get("options", {}).copy()
    path = tmp_path / f"counts{options.pop('suffix', '.csv')}"
    path.write_bytes(table["text"].encode(options.pop("encoding", "utf-8")))
    expected = re.escape(table["refused"]) if "refused" in table else table["read"]
    check(path, expected, **options)


@pytest.mark.parametrize(
    ("source", "expected", "options"),
    [
        (NAMED, COUNTS, {}),
        (FRAME.set_axis(CODES).rename_axis("hospital"), COUNTS, {}),
        (NUMBERED, COUNTS, {}),
        (NUMBERED[[True, False, True, True]], [COUNTS[at] for at in (0, 2, 3)], {}),
        (FRAME, "has no column 'client', but cat, dog, cow; name", {}),
        (SimpleNamespace(to_pandas=lambda: NUMBERED), COUNTS, {}),  # as in Polars and Arrow
        (FRAME, COUNTS, {"classes": "cat..cow"}),
        (crosstab(COUNTS), COUNTS, {}),
        (crosstab(MANY).T.rename_axis("sickness"), "a row for each class; transpose", {}),
        (crosstab(MANY).T.rename_axis(None, axis=1), "a row for each class; transpose", {}),
        (samples(COUNTS), COUNTS, {}),
        (NAMED.replace(9, np.nan), "row 3: a count is missing", {}),
        (NAMED > 2, "row 1: 'True' is not a whole", {}),
        (FRAME.set_index([["a", "b", "c", "d"], CODES]), "index of several levels", {}),
        (FRAME.iloc[:0], "has no table of counts", {}),
        (COUNTS, COUNTS, {}),
        (COUNTS, COUNTS, {"classes": "0..2"}),
        (np.c_[CODES, COUNTS], COUNTS, {"client_column": "0"}),
        (np.array(COUNTS, dtype=np.float32), COUNTS, {}),
        (np.array(COUNTS) / 2, "row 1: '2.5' is not a whole", {}),
        (np.array([[5, 1], [np.nan, 2]]), "row 2: a count is missing", {}),
        (np.c_[np.arange(60), MANY], f"'0' {NO_CLASS}", {}),
        (np.c_[MANY, 1000 + np.arange(60) * 7 % 61], f"'3' {NO_CLASS}", {}),
        (np.c_[MANY, MANY.sum(axis=1)], "first or last column is the sum", {}),
        (np.r_[MANY, MANY.sum(axis=0, keepdims=True)], "first or last row is", {}),
        (np.array([0, 1, 1]), "at least two classes", {}),
        (np.zeros((2, 2, 2)), "pass a row for each client", {}),
        (np.eye(4, dtype=int)[[0, 1, 3, 2, 2]], "holds only 0 and 1", {}),
        ([[1, 2], [3, 4, 5]], "pass a row for each client", {}),
        ([["a", "b"]], "row 1: 'a' is not a whole", {}),
    ],
)
def test_frames_and_arrays(source: Any, expected: Any, options: dict[str, Any]) -> None:
    """A data frame is read like the same table in a file, together with its index."""
    check(source, expected, **options)


@pytest.mark.parametrize(
    ("frame", "options"),
    [
        (NAMED, {}),
        (crosstab(COUNTS), {}),
        (NAMED.reset_index(), {"client_column": "index"}),
    ],
)
def test_parquet_is_read_as_its_frame(
    frame: pd.DataFrame, options: dict[str, Any], tmp_path: Path
) -> None:
    """A Parquet file keeps index and headings."""
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "counts.parquet")
    check(tmp_path / "counts.parquet", COUNTS, **options)


def test_parquet_needs_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow, the error says how to install it, whether or not the file exists."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "counts.parquet"
    check(path, r"without pyarrow; run `pip install './apps/lab\[parquet\]'` .*--extra parquet")
    path.write_bytes(b"PAR1")
    check(path, "without pyarrow; run")


def test_npy(tmp_path: Path) -> None:
    """An array by its rows and columns, whatever its type, and never a pickle."""
    path = tmp_path / "counts.npy"
    np.save(path, np.array(COUNTS, dtype=np.float32))
    check(path, COUNTS)
    np.save(path, np.array([{}]), allow_pickle=True)
    check(path, "pass the path of a table")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".npy", ".parquet"])
def test_a_file_that_does_not_exist(suffix: str, tmp_path: Path) -> None:
    """The error says so in words, whatever the file's type."""
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    check(tmp_path / f"counts{suffix}", rf"counts{suffix} does not exist; pass the path of a table")


def test_partitioner() -> None:
    """Anything with `num_partitions` and `load_partition` can be read."""
    own: Any = [[0, 0, 2], [1, 1]]  # with_format: a transform would want the images as well
    partitioner = SimpleNamespace(
        num_partitions=2,
        load_partition=lambda at: SimpleNamespace(with_format=lambda _: {"label": own[at]}),
    )
    check(partitioner, [[2, 0, 1], [0, 2, 0]])
    check(partitioner, "name their column if it is not 'fine'", label="fine")
    own[0] = [0.5, 1.5]
    check(partitioner, "pass whole numbers")


def test_summary_says_what_was_read() -> None:
    """Clients, classes and totals, on one line each, whatever the names are."""
    found = read_text('client,a,b\n"Bonn\nNorth",1,0\nMainz,3,4\n')
    assert found.summary == "2 clients, 2 classes, 8 samples. Samples of each class: a: 4, b: 4."
    assert found.extremes.startswith("Smallest client: Bonn North with 1 sample. Largest client: M")


def test_summary_of_many_classes_is_short() -> None:
    """It shows where the classes begin and end."""
    summary = load_label_counts(np.full((3, 100), 2)).summary
    assert "class: 0: 6, 1: 6, 2: 6" in summary
    assert "7: 6, ..., 97: 6, 98: 6, 99: 6." in summary
    assert len(summary.splitlines()) == 1


STYLES: list[dict[str, Any]] = [
    {},
    {"sep": ";"},
    {"sep": "\t"},
    {"quoting": 1},
    {"lineterminator": "\r\n"},
    {"float_format": "%.1f"},
    {"sep": ";", "decimal": ",", "float_format": "%.2f"},
    {"header": False},
]
CLASS_NAMES: list[list[Any]] = [
    ["flu", "cold", "ache", "burn", "none"],
    [0, 1, 2, 3, 4],
    [1, 2, 3, 4, 5],
    [2, 3, 5, 7, 11],
    ["class 0", "class 1", "class 2", "class 3", "class 4"],
    ["none", 1, 2, 3, 4],
]
TOTALS = ["All", "Total", "sum", "Gesamt", "n", "Anzahl"]
ID_COLUMNS = ["client", "hospital_nr", "", "Unnamed: 0", "Client ID", "station no.", "healthy"]


@st.composite
def tables_with_ids(draw: st.DrawFn) -> pd.DataFrame:
    """Return a table of counts, indexed by clients as people number them."""
    num_classes, num_clients = draw(st.integers(2, 5)), draw(st.integers(2, 60))
    largest = draw(st.sampled_from([3, 60, 5000]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    counts = rng.integers(0, largest, (num_clients, num_classes))
    counts[:, 0] += 1
    ids: Any = [
        np.arange(num_clients),
        np.arange(num_clients) + 1,
        rng.permutation(num_clients),
        np.sort(rng.choice(5000, num_clients, replace=False)),
        [f"site {'abcdefghij'[at % 10]}{at}" for at in range(num_clients)],
        [f"{at:03d}" for at in range(num_clients)],
    ]
    names = pd.Index(draw(st.sampled_from(ids)), name=draw(st.sampled_from(ID_COLUMNS)))
    return pd.DataFrame(counts, names, draw(st.sampled_from(CLASS_NAMES))[:num_classes])


@settings(max_examples=100)
@given(
    truth=tables_with_ids(),
    style=st.sampled_from(STYLES),
    totals=st.tuples(*[st.sampled_from([None, *TOTALS])] * 2),
    extra=st.sampled_from([None, "hospital_id", "numRows", "age", "Unnamed: 0"]),
    is_first=st.booleans(),
    form=st.sampled_from(["index", "column", "both", "counts only", "transposed"]),
    told=st.sampled_from([None, "classes", "client_column"]),
)
def test_no_table_is_misread(
    *,
    truth: pd.DataFrame,
    style: dict[str, Any],
    totals: tuple[str | None, str | None],
    extra: str | None,
    is_first: bool,
    form: str,
    told: str | None,
) -> None:
    """Whatever its ids, classes, totals and separators are: it is read exactly, or refused."""
    assume(told is None or ("header" not in style and form != "transposed"))
    written = truth.copy()
    place = 0 if is_first else truth.shape[1]
    total_column, total_row = totals
    if total_column is not None:
        written.insert(place, total_column, written.sum(axis=1))
    if extra not in {None, truth.index.name}:
        written.insert(place, extra, [107 + 7 * at for at in range(len(truth))])
    if total_row is not None:
        sums = written.sum().to_frame(total_row).T
        written = pd.concat([sums, written] if is_first else [written, sums])
        written.index.name = truth.index.name
    if "float_format" in style:
        written = written.astype(float)
    if form in {"column", "both"}:
        written = written.reset_index()
    if form == "transposed":
        written = written.T.rename_axis("label")
    text = written.to_csv(index=form not in {"column", "counts only"}, **style)
    own = truth.columns.astype(str)
    said = {"classes": f"{own[0]}..{own[-1]}", "client_column": truth.index.name}
    try:
        found = read_text(text, **({} if told is None else {told: said[told]}))
    except DataError:
        return
    assert found.counts.tolist() == truth.to_numpy().tolist()
    assert list(found.classes) == own.tolist()
    clients = [own.removesuffix(".0") for own in found.clients]
    assert clients in (
        truth.index.astype(str).tolist(),
        [str(at) for at in range(len(truth))],
        [str(at) for at in range(107, 107 + 7 * len(truth), 7)],
    )


@given(tables_with_ids(), st.sampled_from([{}, {"sep": ";"}, {"sep": "\t"}, {"quoting": 1}]))
def test_what_is_certain_is_read(truth: pd.DataFrame, style: dict[str, Any]) -> None:
    """With the range of its classes a table is read, unless it adds up or is all flags."""
    own = truth.columns.astype(str)
    counts = truth.to_numpy()
    assume(counts.max() > 1)
    for lines in (counts, counts.T):
        assume(not any((2 * lines[at] == lines.sum(axis=0)).all() for at in (0, -1)))
    found = read_text(truth.to_csv(**style), classes=f"{own[0]}..{own[-1]}")
    assert found.counts.tolist() == counts.tolist()
