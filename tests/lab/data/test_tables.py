"""A file of label counts is read, or refused with what is wrong."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dubhe_flwr.errors import DataError
from dubhe_lab.data import load_label_counts


class Partition:
    """Like a partition of Flower Datasets, whose transform wants the images as well."""

    column_names = ("image", "label", "fine")

    def __init__(self, labels: list[int], raw: bool = False) -> None:
        self.labels_, self.raw = labels, raw

    def with_format(self, kind: None) -> "Partition":
        return Partition(self.labels_, raw=True)

    def __getitem__(self, column: str) -> list[int]:
        assert self.raw
        return {"label": self.labels_, "fine": self.labels_[::-1]}[column]


TABLE = [[5, 0, 2], [1, 7, 0], [5, 9, 9]]


@pytest.mark.parametrize(
    "text",
    [
        "5,0,2\n1,7,0\n5,9,9\n",
        "no,yes,may be\n5,0,2\n1,7,0\n5,9,9",
        "\ufeff5;0;2\r\n1;7;0\r\n5;9;9\r\n\r\n",
        ",0,1,2\n0,5,0,2\n1,1,7,0\n2,5,9,9\n",
        "5 0 2\n1 7 0\n5 9 9\n",
        'id\t"cat"\tdog\tcow\n1\t5\t0\t2.0\n2\t1\t7\t0\n3\t5\t9\t9\n',
        "St Mary at the lake,5,0,2\nsouth,1,7,0\neast,5,9,9\n",
        "Client,cat,dog,cow\n107,5,0,2\n114,1,7,0\n201,5,9,9\n",
        'Hospital ID,cat,dog,cow\n"Paris, Nord",5,0,2\n3,1,7,0\n1,5,9,9\n',
        "\t5\t0\t2\n\t1\t7\t0\n\t5\t9\t9\n",
        "cat,dog,cow\n107,5,0,2\n114,1,7,0\n101,5,9,9\n",
    ],
)
def test_csv_as_programs_write_it(text: str, tmp_path: Path) -> None:
    """With names of classes and clients, or their numbers, or without."""
    path = tmp_path / "counts.csv"
    path.write_text(text, encoding="utf-8")
    assert load_label_counts(path).tolist() == TABLE


@pytest.mark.parametrize("first", [[30, 0], [30, 1], [5, 0, 1], [5, 1, 2]])
def test_first_client_is_not_taken_for_names(first: list[int], tmp_path: Path) -> None:
    """Few samples that count up look like numbered classes, but the line is a client's."""
    table = [first, [20] * len(first), [20] * len(first)]
    path = tmp_path / "counts.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in table), encoding="utf-8")
    assert load_label_counts(path).tolist() == table


def test_classes_that_are_numbered_are_no_client(tmp_path: Path) -> None:
    """As pandas writes them without an index; of few classes it may be either, and is asked."""
    path = tmp_path / "counts.csv"
    path.write_text("0,1,2,3\n5,0,2,1\n1,7,0,0\n")
    assert load_label_counts(path).tolist() == [[5, 0, 2, 1], [1, 7, 0, 0]]
    path.write_text("1,2,3\n5,0,2\n")
    with pytest.raises(DataError, match="1,2,3, may name the classes or be a client; name"):
        load_label_counts(path)


def test_npy_and_array(tmp_path: Path) -> None:
    """The counts themselves, and a file that NumPy saved."""
    np.save(tmp_path / "counts.npy", np.array(TABLE, dtype=np.float32))
    for source in (tmp_path / "counts.npy", TABLE):
        assert load_label_counts(source).tolist() == TABLE


def test_parquet(tmp_path: Path) -> None:
    """Without the package a sentence names it; columns that are no numbers are names."""
    path = tmp_path / "counts.parquet"
    if find_spec("pyarrow") is None:
        path.touch()
        with pytest.raises(DataError, match="pip install pyarrow"):
            load_label_counts(path)
        return
    pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    columns = {"name": ["a", "b", "c"]} | dict(zip("xyz", np.transpose(TABLE), strict=True))
    parquet.write_table(pa.table({**columns, "__index_level_0__": [0, 1, 2]}), path)
    assert load_label_counts(path).tolist() == TABLE
    path.write_text("nothing of the kind")
    with pytest.raises(DataError, match="no Parquet file"):
        load_label_counts(path)


def test_partitioner() -> None:
    """Anything with `num_partitions` and `load_partition`."""
    own = [[0, 0, 2], [1, 1]]
    partitioner = SimpleNamespace(num_partitions=2, load_partition=lambda at: Partition(own[at]))
    assert load_label_counts(partitioner).tolist() == [[2, 0, 1], [0, 2, 0]]
    partitioner.load_partition = lambda _: Partition([0, 5])
    assert load_label_counts(partitioner, label="fine").shape == (2, 6)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("none.csv", None, "cannot be read (No such file or directory); give the path"),
        ("counts.txt", "1,2", "give a file that ends in .csv, .npy, .parquet."),
        ("a.csv", "", "a.csv has no row of numbers; give one for each client"),
        ("a.csv", "cats,dogs\n", "a.csv has no row of numbers; give one for each client"),
        ("a.csv", "3,4\n5\n", "line 2: '5' is no row of 2 numbers"),
        ("a.csv", "a,b\n3,4\n\n5,many\n", "line 4: '5,many' is no row of 2 numbers"),
        ("a.csv", "3\n5\n", "has shape (2, 1) of float64; give numbers"),
        ("a.csv", "0.4,0.6\n", "row 1 has 0.4 samples of class 0; give whole numbers"),
        ("a.csv", "4,6\n3,nan", "row 2 has nan samples of class 1"),
        ("a.csv", "4,6\n3,-1", "row 2 has -1.0 samples of class 1"),
        ("a.csv", "4,6\n0,0", "row 2 has no samples; leave such clients out."),
        ("a.csv", "a,b,c\n" + "4,6,10\n0,2,2\n" * 3, "the last column is the sum of all"),
        ("a.csv", "id,Total,a,b\n7,9,4,5\n", "'total' is no class and no client; leave"),
        ("a.csv", "id,a,b\n7,4,5\n9,1,1\nSum,5,6\n", "'sum' is no class and no client; leave"),
        ("a.csv", "3,0;5,0\n1,0;2,0\n", "line 1: '3,0;5,0' is no row of"),
        ("a.csv", "Hospital,5,0,2\nSchool,1,7,0\n", "Hospital,5,0,2, may name the classes or be"),
        ("a.csv", 'x,4,5\n"y,1,1\n', "line 2: '\"y,1,1' has an open quote."),
        ("a.csv", "a,b\n4,5,6,7\n", "2 names stand above 4 columns"),
        ("a.csv", "a,b,c\n" + "4,6,1\n0,2,1\n" * 2 + "8,16,4", "the last row is the sum of all"),
        ("a.csv", "client,label,count\n0,0,65\n0,1,38\n", "is a list (client, label, count); give"),
        ("a.npy", "4,6\n0,0", "is no array of numbers"),
    ],
)
def test_a_wrong_file_is_one_sentence(
    name: str, text: str | None, sentence: str, tmp_path: Path
) -> None:
    """It says where, and what to give."""
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError) as error:
        load_label_counts(path)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("make", [lambda: ["a", "b"], lambda: [[1, 2], [3, 4, 5]], lambda: 7])
def test_a_wrong_array_is_one_sentence(make: Callable[[], Any]) -> None:
    """No error of NumPy's own."""
    with pytest.raises(DataError, match="a row for each client"):
        load_label_counts(make())
