"""Tables as people have them: each is read exactly, or refused in a sentence with a remedy."""

import re
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
from dubhe_lab.data.headings import names_clients
from dubhe_lab.data.tables import LabelCounts, load_label_counts

COUNTS = [[5, 0, 2], [1, 7, 0], [0, 9, 9], [5, 3, 1]]
CLASSES = ["cat", "dog", "cow"]
PLACES = ["north", "south", "east", "west"]
CODES = [107, 114, 201, 230]
FRAME = pd.DataFrame(COUNTS, columns=CLASSES)
MANY = np.random.default_rng(0).integers([1, 0, 0], [10, 9, 9], (60, 3))

ID_COLUMNS = [
    *["hospital_nr", "index", "nr", "centre", "clinic", "unit", "row", "site_id", "client", ""],
    *["Unnamed: 0", "user", "device", "subject", "patient_group", "ward", "code", "school"],
    *["lecturer", "d", "id", "Client ID", "clientId", "station no.", "Krankenhaus", "healthy"],
]

MAY_NAME = r"may name the clients or be a class; give --client-column .*--classes .*FIRST\.\.LAST"


def with_ids(heading: str, ids: Any, frame: pd.DataFrame = FRAME) -> pd.DataFrame:
    """Put a column before the counts, as `reset_index` does."""
    return pd.concat([pd.Series(ids, name=heading), frame], axis=1)


def samples(table: Any, clients: Any = None, classes: Any = None) -> pd.DataFrame:
    """Return a row for each sample of a table of counts, shuffled."""
    counts = np.asarray(table)
    rows, columns = np.nonzero(counts)
    times = counts[rows, columns]
    people = np.arange(len(counts)) if clients is None else np.asarray(clients)
    labels = np.arange(counts.shape[1]) if classes is None else np.asarray(classes)
    own = {"client": people[rows.repeat(times)], "label": labels[columns.repeat(times)]}
    return pd.DataFrame(own).sample(frac=1, random_state=1)


def crosstab(table: Any, clients: Any = None, classes: Any = None, **options: Any) -> pd.DataFrame:
    """Count the samples of a table again, as people do."""
    own = samples(table, clients, classes)
    return pd.crosstab(own.client, own.label, **options)


def csv(frame: pd.DataFrame, **options: Any) -> str:
    """Return what pandas writes."""
    return str(frame.to_csv(**options))


def read(source: Any, folder: Path, **options: Any) -> LabelCounts:
    """Read a text as a CSV, anything else as it is."""
    if isinstance(source, str):
        suffix = options.pop("suffix", ".csv")
        path = folder / f"counts{suffix}"
        path.write_bytes(source.encode(options.pop("encoding", "utf-8")))
        source = path
    return load_label_counts(source, **options)


# name, what people have, what is read or a pattern of the sentence, what they say about it
TABLES: list[tuple[str, Any, Any, dict[str, Any]]] = [
    # Names in the first column.
    ("words", csv(with_ids("hospital", PLACES), index=False), COUNTS, {}),
    ("words, unknown heading", csv(with_ids("Ort", PLACES), index=False), COUNTS, {}),
    ("words, class numbers", ",0,1,2\nnorth,5,0,2\nsouth,1,7,0\neast,0,9,9\n", COUNTS[:3], {}),
    ("index of words", csv(FRAME.set_axis(PLACES)), COUNTS, {}),
    ("TSV of words", csv(with_ids("site", PLACES), index=False, sep="\t"), COUNTS, {}),
    ("TSV file", csv(FRAME.set_axis(PLACES), sep="\t"), COUNTS, {"suffix": ".tsv"}),
    ("semicolons", csv(FRAME.set_axis(PLACES), sep=";"), COUNTS, {}),
    ("Excel", csv(FRAME.set_axis(PLACES), sep=";", lineterminator="\r\n"), COUNTS, {}),
    ("BOM", csv(FRAME.set_axis(PLACES)), COUNTS, {"encoding": "utf-8-sig"}),
    ("all quoted", csv(FRAME.set_axis(PLACES), quoting=1), COUNTS, {}),
    ("floats", csv(FRAME.astype(float).set_axis(PLACES)), COUNTS, {}),
    ("two decimals", csv(FRAME.astype(float).set_axis(PLACES), float_format="%.2f"), COUNTS, {}),
    (
        "decimal commas",
        csv(FRAME.astype(float).set_axis(PLACES), sep=";", decimal=","),
        COUNTS,
        {},
    ),
    (
        "scientific",
        csv(FRAME.astype(float).set_axis(PLACES), float_format="%.18e"),
        COUNTS,
        {},
    ),
    ("codes with letters", csv(FRAME.set_axis(["f0", "f1", "f10", "g2"])), COUNTS, {}),
    ("comma in a name", csv(FRAME.set_axis(["Paris, Nord", *PLACES[1:]])), COUNTS, {}),
    ("accents", csv(FRAME.set_axis(["Évora", "Łódź", "Århus", "Bonn"])), COUNTS, {}),
    ("spaces after commas", "site, cat, dog\nnorth, 5, 0\nsouth, 1, 7\n", [[5, 0], [1, 7]], {}),
    ("blank lines", "site,cat,dog\n\nnorth,5,0\n\nsouth,1,7\n\n\n", [[5, 0], [1, 7]], {}),
    ("lines of commas", "site,cat,dog\nnorth,5,0\nsouth,1,7\n,,\n,,\n", [[5, 0], [1, 7]], {}),
    ("trailing separators", "site,cat,dog,\nnorth,5,0,\nsouth,1,7,\n", [[5, 0], [1, 7]], {}),
    ("old Mac lines", "site,cat,dog\rnorth,5,0\rsouth,1,7\r", [[5, 0], [1, 7]], {}),
    (
        "more classes than hospitals",
        "hospital,a,b,c\nX,5,0,1\nY,1,7,2\n",
        [[5, 0, 1], [1, 7, 2]],
        {},
    ),
    (
        "class_0",
        csv(FRAME.set_axis(["class_0", "class_1", "class_2"], axis=1).set_axis(PLACES)),
        COUNTS,
        {},
    ),
    # Words that do not name clients for certain.
    ("names twice", "site,cat,dog\nnorth,5,0\nnorth,1,7\n", "'north' is in line 2 and line 3", {}),
    ("a name is missing", "site,cat,dog\nnorth,5,0\n,1,7\n", MAY_NAME, {}),
    ("NA for a name", "site,cat,dog\nnorth,5,0\nNA,1,7\n", MAY_NAME, {}),
    ("counts in thousands", "cat,dog\n5k,1\n7k,2\n", MAY_NAME, {}),
    ("words among counts", "cat,dog\n5,1\nfew,2\n", MAY_NAME, {}),
    (
        "no heading, words",
        "Hospital,5,0,2\nSchool,1,7,0\n",
        "first line, Hospital, 5, 0, 2, may",
        {},
    ),
    ("no heading, ascending", "north,5,7,9\nsouth,1,7,0\n", "first line, north, 5, 7, 9, may", {}),
    ("no heading, gap", "north,n.a.,7,9\nsouth,1,7,0\n", "may name the classes or be a client", {}),
    ("age groups", "site,0-17,18+\nnorth,5,0\nsouth,1,7\n", "give --client-column site", {}),
    (
        "age groups, told",
        "site,0-17,18+\nnorth,5,0\nsouth,1,7\n",
        [[5, 0], [1, 7]],
        {"client_column": "site"},
    ),
    ("second heading of words", "site,cat,dog\n,n,n\nnorth,5,0\n", MAY_NAME, {}),
    (
        "second heading of units",
        "site,cat,dog\nname,(n),(n)\nnorth,5,0\n",
        r"line 2: '\(n\)' is not",
        {},
    ),
    (
        "second heading of numbers",
        "site,a,b,c,d\ncode,0,1,2,3\nx,5,0,1,1\ny,1,7,2,1\nz,1,1,2,1\n",
        "may be a second heading",
        {},
    ),
    ("heading again", csv(FRAME.set_axis(PLACES)) * 2, MAY_NAME, {}),
    (
        "an id after the names",
        csv(with_ids("name", PLACES, with_ids("hospital_id", CODES)), index=False),
        "'hospital_id' seems to describe",
        {},
    ),
    (
        "row numbers after the names",
        "name,k,a,b\n" + "".join(f"s{'abcdefg'[k]},{k},5,{k % 3}\n" for k in range(7)),
        "'k' ascends or never",
        {},
    ),
    (
        "row numbers at the end",
        "name,a,b,k\n" + "".join(f"s{'abcdefg'[k]},5,{k % 3},{k}\n" for k in range(7)),
        "'k' ascends or never",
        {},
    ),
    (
        "codes after the names",
        "name,k,a,b\n" + "".join(f"s{k},{300 + k * 7 % 31},5,{k % 3}\n" for k in range(31)),
        "'k' ascends or never",
        {},
    ),
    (
        "a year",
        "site,year,cat,dog\nnorth,2020,5,0\nsouth,2020,1,7\neast,2020,4,4\n",
        "'year' seems to describe",
        {},
    ),
    (
        "words for regions",
        "site,land,cat,dog\nnorth,no,5,0\nsouth,se,1,7\neast,dk,4,4\n",
        "line 2: 'no' is not a whole number",
        {},
    ),
    (
        "words for regions, told",
        "site,land,cat,dog\nnorth,no,5,0\nsouth,se,1,7\n",
        [[5, 0], [1, 7]],
        {"classes": "cat..dog"},
    ),
    # Classes in rows.
    (
        "transposed, class",
        "class,north,south\ncat,5,1\ndog,0,7\n",
        "'class' may hold classes or labels; transpose",
        {},
    ),
    (
        "transposed, clients numbered",
        csv(FRAME.set_axis(PLACES).T.set_axis([f"client {k}" for k in range(4)], axis=1)),
        "or transpose the table",
        {},
    ),
    (
        "transposed, hospitals",
        ",hospital_1,hospital_2\na,5,1\nb,0,7\nc,1,1\n",
        "may be clients; transpose",
        {},
    ),
    (
        "transposed, few classes",
        csv(FRAME.set_axis(PLACES).T),
        "the 3 rows may be clients or classes",
        {},
    ),
    ("transposed crosstab", csv(crosstab(MANY).T), "'label' may hold classes or labels", {}),
    ("crosstab of arrays, wrong way", csv(crosstab(MANY).T.rename_axis("row_0")), MAY_NAME, {}),
    # Class names without names of clients.
    ("counts only", csv(FRAME, index=False), MAY_NAME, {}),
    ("counts only, distinct", "cat,dog\n5,0\n1,7\n", MAY_NAME, {}),
    ("counts only, told", csv(FRAME, index=False), COUNTS, {"classes": "cat..cow"}),
    (
        "class numbers only",
        "0,1,2\n5,0,2\n1,7,0\n5,3,1\n",
        "first line, 0, 1, 2, may be a client or number the classes",
        {},
    ),
    (
        "class numbers only, told",
        "0,1,2\n5,0,2\n1,7,0\n5,3,1\n",
        [COUNTS[0], COUNTS[1], COUNTS[3]],
        {"classes": "0..2"},
    ),
    ("pandas as it comes", csv(pd.DataFrame(MANY)), MANY, {}),
    ("pandas as it comes, few rows", csv(pd.DataFrame(COUNTS)), MAY_NAME, {}),
    ("pandas as it comes, told", csv(pd.DataFrame(COUNTS)), COUNTS, {"classes": "0..2"}),
    ("pandas, words as classes", csv(FRAME), MAY_NAME, {}),
    ("pandas, told", csv(FRAME), COUNTS, {"client_column": ""}),
    # No heading.
    (
        "no heading",
        csv(FRAME, index=False, header=False),
        "first line, 5, 0, 2, may be a client",
        {},
    ),
    (
        "no heading, distinct",
        "3,0,2\n1,7,0\n",
        "give --no-heading with --client-column 0 or --classes 0..2 if it is a client",
        {},
    ),
    (
        "no heading, said",
        csv(FRAME, index=False, header=False),
        r"such as 0\.\.2",
        {"heading": False},
    ),
    (
        "no heading, told",
        csv(FRAME, index=False, header=False),
        COUNTS,
        {"heading": False, "classes": "0..2"},
    ),
    (
        "no heading, client numbers",
        csv(FRAME.set_axis(CODES), header=False),
        MAY_NAME,
        {"heading": False},
    ),
    (
        "no heading, clients told",
        csv(FRAME.set_axis(CODES), header=False),
        COUNTS,
        {"heading": False, "client_column": "0"},
    ),
    (
        "no heading, words, said",
        csv(FRAME.set_axis(PLACES), header=False),
        COUNTS,
        {"heading": False},
    ),
    ("a heading, denied", csv(FRAME.set_axis(PLACES)), MAY_NAME, {"heading": False}),
    (
        "a heading of words, denied",
        csv(with_ids("site", PLACES), index=False),
        "line 1: 'cat' is not a whole",
        {"heading": False},
    ),
    ("total on top, no heading", "Total,6,9\n1,5,2\n2,1,7\n", MAY_NAME, {}),
    # Crosstabs.
    ("crosstab", csv(crosstab(COUNTS)), COUNTS, {}),
    (
        "crosstab of schools",
        csv(crosstab(COUNTS, CODES, [0, 2, 4]).rename_axis("school")),
        COUNTS,
        {},
    ),
    ("crosstab of many", csv(crosstab(MANY, classes=[1, 2, 3]).rename_axis("d")), MANY, {}),
    (
        "crosstab of many, gaps",
        csv(crosstab(MANY, clients=np.arange(60) * 2 + 1).rename_axis("d")),
        MANY,
        {},
    ),
    ("crosstab of few", csv(crosstab(COUNTS).rename_axis("d")), MAY_NAME, {}),
    (
        "crosstab of few, told",
        csv(crosstab(COUNTS).rename_axis("d")),
        COUNTS,
        {"client_column": "d"},
    ),
    ("crosstab, margins", csv(crosstab(COUNTS, margins=True)), COUNTS, {}),
    ("crosstab of many, margins", csv(crosstab(MANY, margins=True).rename_axis("d")), MANY, {}),
    (
        "crosstab, margins in German",
        csv(crosstab(COUNTS, margins=True, margins_name="Gesamt")),
        COUNTS,
        {},
    ),
    (
        "crosstab, words",
        csv(crosstab(COUNTS, PLACES, CLASSES)),
        [[0, 9, 9], [5, 2, 0], [1, 0, 7], [5, 1, 3]],
        {},
    ),
    ("crosstab, words of classes only", csv(crosstab(COUNTS, CODES, CLASSES)), MAY_NAME, {}),
    (
        "crosstab, words, margins",
        csv(crosstab(COUNTS, PLACES, CLASSES, margins=True)),
        [[0, 9, 9], [5, 2, 0], [1, 0, 7], [5, 1, 3]],
        {},
    ),
    ("crosstab, shares", csv(crosstab(COUNTS, normalize="index")), "is not a whole number", {}),
    ("crosstab, labels as floats", csv(crosstab(COUNTS, classes=[0.0, 1.0, 2.0])), COUNTS, {}),
    (
        "crosstab, numbers as text",
        csv(crosstab(MANY[:12], list(map(str, range(12))))),
        MANY[np.argsort(list(map(str, range(12))))],
        {},
    ),
    ("crosstab, semicolons", csv(crosstab(COUNTS), sep=";"), COUNTS, {}),
    (
        "crosstab, two levels",
        csv(pd.crosstab([samples(COUNTS).client, samples(COUNTS).label], samples(COUNTS).label)),
        "may name the clients",
        {},
    ),
    (
        "pivot table, gaps",
        csv(
            samples(COUNTS)
            .assign(n=1)
            .pivot_table(index="client", columns="label", values="n", aggfunc="sum")
        ),
        "a count is missing",
        {},
    ),
    (
        "pivot table, filled",
        csv(
            samples(COUNTS)
            .assign(n=1)
            .pivot_table(index="client", columns="label", values="n", aggfunc="sum", fill_value=0)
        ),
        COUNTS,
        {},
    ),
    (
        "pivot table, two headings",
        csv(
            samples(COUNTS)
            .assign(n=1, w=2)
            .pivot_table(index="client", columns="label", values=["n", "w"], aggfunc="sum")
        ),
        "two columns",
        {},
    ),
    (
        "groupby and unstack",
        csv(samples(COUNTS).groupby(["client", "label"]).size().unstack(fill_value=0)),  # noqa: PD010
        COUNTS,
        {},
    ),
    (
        "healthy is a class",
        "healthy,1,2,3\n" + "".join(f"{k * 11},5,{k % 3},1\n" for k in range(30)),
        MAY_NAME,
        {},
    ),
    ("background is a class", "background,1,2\n2,5,0\n3,1,7\n5,4,4\n", MAY_NAME, {}),
    # Totals.
    ("total column", csv(FRAME.assign(Total=FRAME.sum(axis=1)).set_axis(PLACES)), COUNTS, {}),
    ("sum column first", csv(with_ids("sum", FRAME.sum(axis=1)).set_axis(PLACES)), COUNTS, {}),
    (
        "number of samples",
        csv(FRAME.assign(num_samples=FRAME.sum(axis=1)).set_axis(PLACES)),
        COUNTS,
        {},
    ),
    (
        "total of more classes",
        csv(FRAME.assign(Total=[9, 9, 20, 9]).set_axis(PLACES)),
        "'Total' is not the sum of the classes",
        {},
    ),
    ("a class called ALL", "site,AML,ALL\nx,5,3\ny,1,7\n", "'ALL' is not the sum.*--classes", {}),
    (
        "a class called ALL, told",
        "site,AML,ALL\nx,5,3\ny,1,7\n",
        [[5, 3], [1, 7]],
        {"classes": "AML..ALL"},
    ),
    (
        "total among the classes",
        "site,a,b,Total\nx,5,3,8\ny,1,7,8\n",
        "'Total' is the sum of the classes",
        {"classes": "a..Total"},
    ),
    ("subtotal", "site,a,b,total ab,c\nx,5,3,8,1\ny,1,7,8,2\n", "'total ab' is not the sum", {}),
    (
        "total without a name",
        csv(FRAME.assign(Anzahl=FRAME.sum(axis=1)).set_axis(PLACES)),
        "first or last column is the sum",
        {},
    ),
    (
        "total row",
        csv(pd.concat([FRAME.set_axis(PLACES), FRAME.sum().to_frame("Sum").T])),
        COUNTS,
        {},
    ),
    (
        "grand total row",
        csv(pd.concat([FRAME.set_axis(PLACES), FRAME.sum().to_frame("Grand Total").T])),
        COUNTS,
        {},
    ),
    (
        "total row first",
        csv(pd.concat([FRAME.sum().to_frame("total").T, FRAME.set_axis(PLACES)])),
        COUNTS,
        {},
    ),
    (
        "total row that is none",
        csv(pd.concat([FRAME.set_axis(PLACES), FRAME.max().to_frame("Total").T])),
        "line 6: the row calls itself a total and is not",
        {},
    ),
    (
        "total row without a name",
        csv(pd.concat([FRAME.set_axis(PLACES), FRAME.sum().to_frame("Europe").T])),
        "first or last row is the sum",
        {},
    ),
    (
        "total row under numbers",
        csv(pd.concat([FRAME.set_axis(CODES), FRAME.sum().to_frame("Total").T])),
        MAY_NAME,
        {},
    ),
    (
        "total row under numbers, told",
        csv(pd.concat([FRAME.set_axis(CODES), FRAME.sum().to_frame("Total").T])),
        COUNTS,
        {"client_column": ""},
    ),
    (
        "a row of means",
        csv(pd.concat([FRAME.set_axis(PLACES), FRAME.mean().to_frame("mean").T])),
        "line 6: '2.75' is not a whole number",
        {},
    ),
    ("two equal clients", "site,a,b\nx,5,3\ny,5,3\n", [[5, 3], [5, 3]], {}),
    ("two balanced classes", "site,a,b\nx,5,5\ny,7,7\nz,1,1\n", [[5, 5], [7, 7], [1, 1]], {}),
    # Long tables.
    ("long", csv(samples(COUNTS), index=False), COUNTS, {}),
    ("long, with an index", csv(samples(COUNTS).reset_index(drop=True)), COUNTS, {}),
    (
        "long, words",
        csv(samples(COUNTS, PLACES, CLASSES), index=False),
        [[0, 9, 9], [5, 2, 0], [1, 0, 7], [5, 1, 3]],
        {},
    ),
    (
        "long, capitals",
        csv(samples(COUNTS).set_axis(["Client", "Label"], axis=1), index=False),
        COUNTS,
        {},
    ),
    ("long, label first", csv(samples(COUNTS)[["label", "client"]], index=False), COUNTS, {}),
    ("long, counted", csv(samples(COUNTS).value_counts().reset_index(), index=False), COUNTS, {}),
    (
        "long, melted",
        csv(
            FRAME.rename_axis("client")
            .reset_index()
            .melt("client", var_name="label", value_name="count"),
            index=False,
        ),
        [[5, 2, 0], [1, 0, 7], [0, 9, 9], [5, 1, 3]],
        {},
    ),
    (
        "long, other headings",
        csv(samples(COUNTS).set_axis(["d", "y"], axis=1), index=False),
        MAY_NAME,
        {},
    ),
    (
        "long, told",
        csv(samples(COUNTS).set_axis(["d", "y"], axis=1), index=False),
        COUNTS,
        {"client_column": "d", "label_column": "y"},
    ),
    (
        "long, hospitals and codes",
        "hospital,diagnosis,n\n101,3,25\n101,5,12\n102,3,7\n",
        MAY_NAME,
        {},
    ),
    ("long, hospitals and words", "hospital,diagnosis\n101,flu\n101,cold\n102,flu\n", MAY_NAME, {}),
    (
        "long, words and codes",
        "hospital,diagnosis\nnorth,3\nsouth,5\n",
        "'diagnosis'|at least two classes",
        {},
    ),
    (
        "long, a count of another name",
        "h,y,n\n1,3,25\n1,5,12\n2,3,7\n",
        "has the columns h, y, n; for a row a sample keep two",
        {"client_column": "h", "label_column": "y"},
    ),
    ("long, with features", csv(samples(COUNTS).assign(age=30), index=False), MAY_NAME, {}),
    (
        "long, pair twice",
        "client,label,count\n1,3,25\n1,3,12\n2,5,7\n",
        "client '1' has two counts of '3'; add them",
        {},
    ),
    (
        "long, label missing",
        "client,label\n1,3\n1,\n2,5\n2,5\n",
        "line 3: '' in 'label' is no name",
        {},
    ),
    (
        "long, label NaN",
        "client,label\n1,3\n1,nan\n2,5\n2,5\n",
        "line 3: 'nan' in 'label' is no name",
        {},
    ),
    (
        "long, measurements",
        "client,label\n1,3.25\n1,0.5\n2,0.5\n",
        "line 2: '3.25' in 'label' is no name.*bins",
        {},
    ),
    (
        "long, labels as floats",
        csv(samples(COUNTS).astype({"label": float}), index=False),
        COUNTS,
        {},
    ),
    (
        "long, capitals of labels",
        "client,label\n1,Flu\n1,flu\n2,flu\n2,cold\n",
        "differ in capitals only",
        {},
    ),
    (
        "long, ids as labels",
        "client,label\n1,11\n1,12\n2,13\n2,14\n",
        "no label in 'label' is there twice",
        {},
    ),
    ("long, one label", "client,label\n1,flu\n2,flu\n2,flu\n", "at least two classes", {}),
    (
        "long, wrong count",
        "client,label,count\n1,3,2.5\n1,4,12\n",
        "line 2: '2.5' is not a whole number",
        {},
    ),
    (
        "long, one column for both",
        "client,label\n1,3\n1,3\n2,4\n",
        "keep two",
        {"client_column": "label", "label_column": "label"},
    ),
    (
        "long, and classes",
        "client,label\n1,3\n1,3\n2,4\n",
        "leave it or classes out",
        {"label_column": "label", "classes": "client..label"},
    ),
    # A row a sample.
    ("one-hot", "site,cat,dog\na,1,0\nb,0,1\nc,0,1\n", "holds only 0 and 1", {}),
    ("one-hot, told", "cat,dog\n1,0\n0,1\n0,1\n", "holds only 0 and 1", {"classes": "cat..dog"}),
    (
        "pixels",
        "label,pixel0,pixel1\n5,0,9\n3,7,0\n5,1,1\n",
        "'label' may hold classes or labels",
        {},
    ),
    ("file names", "file,width,height\na.png,5,7\nb.png,3,7\n", "each row may be one sample", {}),
    (
        "a label at the end",
        "name,width,label\nanna,5,0\nbert,3,1\ncarl,5,1\n",
        "'label' seems to describe",
        {},
    ),
    ("features", "sepal,petal,species\n5.1,1.4,setosa\n4.9,1.4,setosa\n", MAY_NAME, {}),
    # Cells that are no counts.
    (
        "thousands",
        'site,cat,dog\nnorth,"1,200",0\nsouth,1,7\n',
        "line 2: '1,200' is not a whole",
        {},
    ),
    (
        "thousands, German",
        "site;cat;dog\nnorth;1.200;0\nsouth;1;7\n",
        "line 2: '1.200' is not a whole",
        {},
    ),
    (
        "thousands, bare",
        "site,cat,dog\nnorth,1,200,0\nsouth,1,7\n",
        "Expected 3 fields in line 2, saw 4",
        {},
    ),
    (
        "thousands, all bare",
        "site,cat,dog\nnorth,1,200,5\nsouth,1,900,7\n",
        "Expected 3 fields",
        {},
    ),
    ("decimal commas, bare", "site,cat,dog\nnorth,5,0,0,0\n", "Expected 3 fields", {}),
    ("percent", "site,cat,dog\nnorth,50%,50%\nsouth,10%,90%\n", "'50%' is a share", {}),
    ("shares", "site,cat,dog\nnorth,0.4,0.6\nsouth,0.1,0.9\n", "line 2: '0.4' is not a whole", {}),
    ("negative", "site,cat,dog\nnorth,5,0\nsouth,-1,7\n", "line 3: '-1' is not a whole", {}),
    (
        "missing",
        "site,cat,dog\nnorth,5,\nsouth,1,7\n",
        "line 2: a count is missing in the column 'dog'",
        {},
    ),
    ("nan", "site,cat,dog\nnorth,5,nan\nsouth,1,7\n", "line 2: 'nan' is not a whole", {}),
    ("inf", "site,cat,dog\nnorth,5,inf\nsouth,1,7\n", "line 2: 'inf' is not a whole", {}),
    ("too few to tell", "site,cat,dog\nnorth,5,<5\nsouth,1,7\n", "line 2: '<5' is not a whole", {}),
    ("leading zeros", "site,cat,dog\nnorth,5,007\nsouth,1,7\n", "line 2: '007' is not a whole", {}),
    (
        "huge",
        "site,cat,dog\nnorth,5,9999999999999\nsouth,1,7\n",
        "'9999999999999' is not a whole",
        {},
    ),
    ("no samples", "site,cat,dog\nnorth,5,1\nsouth,0,0\n", "line 3: the client has no samples", {}),
    # Files that are cut or dressed up.
    ("a short line", "site,cat,dog\nnorth,5\nsouth,1,7\n", "line 2: there are fewer cells", {}),
    ("a short heading, spaces", '"cat" "dog"\n"1" 5 0\n"2" 1 7\n', "close every quote", {}),
    (
        "spaces",
        "site cat dog\nnorth 5 0\nsouth 1 7\n",
        "has no table of counts.*separated by commas",
        {},
    ),
    (
        "blank lines first",
        "\n\nsite,cat,dog\nnorth,5,0\nsouth,1,x\n",
        "line 5: 'x' is not a whole",
        {},
    ),
    ("a heading short by one", "cat,dog\n1,5,0\n2,1,7\n", "Expected 2 fields in line 2, saw 3", {}),
    ("separators in rows only", "cat,dog\n1,5,\n2,1,\n", "Expected 2 fields in line 2", {}),
    (
        "a title",
        "Counts of 2024\nsite,cat,dog\nnorth,5,0\n",
        "Expected 1 fields in line 2, saw 3",
        {},
    ),
    ("a comment", "# by clinic\nsite,cat,dog\nnorth,5,0\n", "delete titles and comments", {}),
    ("a heading of savetxt", "# cat,dog\n5,0\n1,7\n", "line 1: delete the comment", {}),
    (
        "a footer",
        "site,cat,dog\nnorth,5,0\nsouth,1,7\nSource: register\n",
        "line 4: there are fewer cells",
        {},
    ),
    ("an open quote", 'site,cat,dog\n"north,5,0\nsouth,1,7\n', "close every quote", {}),
    ("a column twice", "site,cat,cat\nnorth,5,0\nsouth,1,7\n", "has two columns 'cat'", {}),
    (
        "a column twice, capitals",
        "site,cat,Cat\nnorth,5,0\nsouth,1,7\n",
        "has two columns 'Cat'",
        {},
    ),
    (
        "a column without a name",
        "site,cat,,dog\nnorth,5,0,1\nsouth,1,7,1\neast,1,1,3\n",
        "may name the classes|'' has no name",
        {},
    ),
    ("one class", "site,cat\nnorth,5\nsouth,1\n", "at least two classes", {}),
    ("one column", "cat\n5\n1\n", "has no table of counts", {}),
    ("only a heading", "site,cat,dog\n", "has no table of counts", {}),
    ("nothing", "", "has no table of counts", {}),
    ("bars", "site|cat|dog\nnorth|5|0\n", "has no table of counts", {}),
    ("two separators", "site;cat,dog\nnorth;5,0\n", "does not show what separates", {}),
    ("Excel's first line", "sep=;\nsite;cat;dog\nnorth;5;0\n", "Expected 2 fields in line 2", {}),
    ("UTF-16", csv(FRAME.set_axis(PLACES)), "is not in UTF-8", {"encoding": "utf-16"}),
    (
        "UTF-16 without a mark",
        csv(FRAME.set_axis(PLACES)),
        "save the table as CSV in UTF-8",
        {"encoding": "utf-16-le"},
    ),
    (
        "Latin-1",
        csv(FRAME.set_axis(["Évora", *PLACES[1:]])),
        "is not in UTF-8",
        {"encoding": "latin-1"},
    ),
    ("a workbook", "PK", "has to end in .csv, .tsv, .parquet or .npy", {"suffix": ".xlsx"}),
    ("no Parquet", "PK", "give the path of a table", {"suffix": ".parquet"}),
    ("no array", "4,6\n", "give the path of a table", {"suffix": ".npy"}),
    # What people say about a table, and it is not so.
    (
        "no such column",
        csv(FRAME.set_axis(PLACES)),
        "has no column 'hospital'; name one of , cat",
        {"client_column": "hospital"},
    ),
    ("no such class", csv(FRAME.set_axis(PLACES)), "has no column 'pig'", {"classes": "cat..pig"}),
    ("no range", csv(FRAME.set_axis(PLACES)), r"has to be FIRST\.\.LAST", {"classes": "cat"}),
    (
        "a range backwards",
        csv(FRAME.set_axis(PLACES)),
        "from left to right",
        {"classes": "cow..cat"},
    ),
    (
        "clients in the range",
        "a,b,c\n1,5,0\n2,1,7\n",
        "may name the clients",
        {"classes": "a..c", "client_column": "a"},
    ),
    # Data frames and arrays.
    ("frame of words", FRAME.set_axis(PLACES), COUNTS, {}),
    ("frame with a named index", FRAME.set_axis(CODES).rename_axis("hospital"), COUNTS, {}),
    ("frame with numbers", with_ids("hospital_nr", CODES), MAY_NAME, {}),
    ("frame, filtered", with_ids("hospital_nr", CODES)[[True, False, True, True]], MAY_NAME, {}),
    ("frame of counts", FRAME, MAY_NAME, {}),
    ("frame of counts, told", FRAME, COUNTS, {"classes": "cat..cow"}),
    ("frame of a crosstab", crosstab(COUNTS), COUNTS, {}),
    ("frame of margins", crosstab(COUNTS, margins=True), COUNTS, {}),
    ("frame of a turned crosstab", crosstab(MANY).T, "'label' may hold classes", {}),
    ("frame of samples", samples(COUNTS), COUNTS, {}),
    (
        "frame with a gap",
        FRAME.set_axis(PLACES).replace(9, np.nan),
        "row 3: a count is missing",
        {},
    ),
    ("frame of flags", FRAME.set_axis(PLACES) > 2, "row 1: 'True' is not a whole", {}),
    ("frame of two levels", FRAME.set_index([PLACES, CODES]), "index of several levels", {}),
    ("frame without rows", FRAME.iloc[:0], "has no table of counts", {}),
    ("array", np.array(COUNTS), COUNTS, {}),
    ("lists", COUNTS, COUNTS, {}),
    ("array of floats", np.array(COUNTS, dtype=np.float32), COUNTS, {}),
    ("array of shares", np.array(COUNTS) / 2, "row 1 has 2.5 samples of class 0", {}),
    ("array with NaN", np.array([[5, 1], [np.nan, 2]]), "row 2 has nan samples", {}),
    ("array with row numbers", np.c_[np.arange(60), MANY], "the first column seems to number", {}),
    (
        "array with codes at the end",
        np.c_[MANY, 1000 + np.arange(60) * 7 % 61],
        "the last column seems to number",
        {},
    ),
    ("array with totals", np.c_[MANY, MANY.sum(axis=1)], "first or last column is the sum", {}),
    (
        "array with a total row",
        np.r_[MANY, MANY.sum(axis=0, keepdims=True)],
        "first or last row is",
        {},
    ),
    ("array of labels", np.array([0, 1, 1]), "give numbers, a row for each client", {}),
    ("array, one-hot", np.eye(4, dtype=int)[[0, 1, 3, 2, 2]], "holds only 0 and 1", {}),
    ("rows of several lengths", [[1, 2], [3, 4, 5]], "give a row for each client", {}),
    ("array of words", [["a", "b"]], "give numbers, a row for each client", {}),
    ("array, told", COUNTS, "has no headings; leave classes out", {"classes": "0..2"}),
]


@pytest.mark.parametrize(
    ("source", "expected", "options"),
    [pytest.param(*own, id=name) for name, *own in TABLES],
)
def test_tables_as_people_have_them(
    source: Any, expected: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    """Each is read exactly, or refused in one sentence."""
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected) as error:
            read(source, tmp_path, **options)
        assert re.search(r"[^\n]\.$", str(error.value))
        assert "\n" not in str(error.value)
    else:
        assert read(source, tmp_path, **options).counts.tolist() == np.asarray(expected).tolist()


def test_there_are_hundred_tables() -> None:
    """None is there twice."""
    assert len(TABLES) >= 100
    assert len({name for name, *_ in TABLES}) == len(TABLES)


@pytest.mark.parametrize("ids", [CODES, [0, 1, 2, 3], [3, 1, 2, 4], [7, 7, 9, 9]])
def test_numbers_of_clients_are_no_class(ids: list[int], tmp_path: Path) -> None:
    """Beside classes of any name they are refused, and the sentence has both remedies."""
    for heading in ID_COLUMNS:
        table = csv(with_ids(heading, ids), index=False)
        with pytest.raises(DataError, match=MAY_NAME):
            read(table, tmp_path)
        assert read(table, tmp_path, classes="cat..cow").counts.tolist() == COUNTS
        if len(set(ids)) == len(ids):
            found = read(table, tmp_path, client_column=heading)
            assert (found.counts.tolist(), found.classes) == (COUNTS, tuple(CLASSES))
            assert found.clients == tuple(map(str, ids))


@pytest.mark.parametrize("clients", [np.arange(60), np.arange(60) * 2 + 1, np.arange(60) * 999])
def test_crosstabs_name_their_clients(clients: Any, tmp_path: Path) -> None:
    """Below any heading, if the numbers lie close; else below a word for clients."""
    for heading in ID_COLUMNS:
        table = csv(crosstab(MANY, clients).rename_axis(heading))
        if clients[-1] > 1000 and not names_clients(heading):
            with pytest.raises(DataError, match=MAY_NAME):
                read(table, tmp_path)
            continue
        found = read(table, tmp_path)
        assert found.counts.tolist() == MANY.tolist()
        assert found.clients == tuple(map(str, clients))


@pytest.mark.parametrize("frame", [FRAME.set_axis(PLACES), crosstab(COUNTS), samples(COUNTS)])
def test_parquet_keeps_index_and_headings(frame: pd.DataFrame, tmp_path: Path) -> None:
    """What pandas wrote is read as the data frame is."""
    pytest.importorskip("pyarrow")
    path = tmp_path / "counts.parquet"
    frame.to_parquet(path)
    assert load_label_counts(path).counts.tolist() == COUNTS


def test_parquet_without_an_index(tmp_path: Path) -> None:
    """A column of numbers is refused as in a CSV."""
    pytest.importorskip("pyarrow")
    path = tmp_path / "counts.parquet"
    with_ids("hospital_nr", CODES).to_parquet(path, index=False)
    with pytest.raises(DataError, match=MAY_NAME):
        load_label_counts(path)
    assert load_label_counts(path, client_column="hospital_nr").counts.tolist() == COUNTS


def test_parquet_needs_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names it."""

    def missing(path: Path) -> pd.DataFrame:
        raise ImportError(path)

    monkeypatch.setattr(pd, "read_parquet", missing)
    with pytest.raises(DataError, match="needs pyarrow; install it with `pip install pyarrow`"):
        load_label_counts(tmp_path / "counts.parquet")


def test_npy(tmp_path: Path) -> None:
    """An array by its rows and columns, whatever its type."""
    np.save(tmp_path / "counts.npy", np.array(COUNTS, dtype=np.float32))
    found = load_label_counts(str(tmp_path / "counts.npy"))
    assert found.counts.tolist() == COUNTS
    assert found.counts.dtype == np.int64
    np.save(tmp_path / "counts.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(DataError, match="give the path of a table"):
        load_label_counts(tmp_path / "counts.npy")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The operating system's reason is passed on."""
    with pytest.raises(DataError, match=r"cannot be read \(No such file"):
        load_label_counts(tmp_path / "counts.csv")


class Partition:
    """Like a partition of Flower Datasets, whose transform wants the images as well."""

    def __init__(self, labels: list[Any]) -> None:
        self.labels_ = labels

    def with_format(self, kind: None) -> dict[str, list[Any]]:
        return {"label": self.labels_}


def test_partitioner() -> None:
    """Anything with `num_partitions` and `load_partition`."""
    own = [[0, 0, 2], [1, 1]]
    partitioner = SimpleNamespace(num_partitions=2, load_partition=lambda at: Partition(own[at]))
    assert load_label_counts(partitioner).counts.tolist() == [[2, 0, 1], [0, 2, 0]]
    with pytest.raises(DataError, match="name their column if it is not 'fine'"):
        load_label_counts(partitioner, label="fine")
    partitioner.load_partition = lambda _: Partition([0.5, 1.5])
    with pytest.raises(DataError, match="give whole numbers"):
        load_label_counts(partitioner)


def test_summary_says_what_was_read(tmp_path: Path) -> None:
    """Clients, classes and totals, and what was left out."""
    table = csv(crosstab(COUNTS, PLACES, CLASSES, margins=True))
    assert read(table, tmp_path).summary.splitlines() == [
        "4 clients, 3 classes, 42 samples. Samples of each class: cat 11, cow 12, dog 19.",
        "Smallest client: north with 7 samples. Largest client: east with 18 samples.",
        "Left out: column 'All', row 'All'.",
    ]


def test_summary_of_many_classes_is_short() -> None:
    """It shows where the classes begin and end."""
    summary = load_label_counts(np.full((3, 100), 2)).summary
    assert "class: 0 6, 1 6, 2 6" in summary
    assert "7 6, ..., 97 6, 98 6, 99 6." in summary
    assert len(summary.splitlines()) == 2


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
    extra=st.sampled_from([None, "hospital_id", "number", "age", "Unnamed: 0"]),
    is_first=st.booleans(),
    form=st.sampled_from(["index", "column", "both", "counts only", "transposed"]),
    told=st.sampled_from([None, "heading", "classes", "client_column"]),
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
    assume("header" not in style or (form != "transposed" and told in {None, "heading"}))
    assume(form != "transposed" or told is None)
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
    said = {
        "heading": False,
        "classes": f"{own[0]}..{own[-1]}",
        "client_column": truth.index.name,
    }
    try:
        found = read_text(text, **({} if told is None else {told: said[told]}))
    except DataError:
        return
    assert found.counts.tolist() == truth.to_numpy().tolist()
    if told != "heading":
        assert list(found.classes) == own.tolist()
    clients = [own.removesuffix(".0") for own in found.clients]
    assert clients in (
        truth.index.astype(str).tolist(),
        [str(at) for at in range(len(truth))],
        [str(at) for at in range(107, 107 + 7 * len(truth), 7)],
    )


def read_text(text: str, **options: Any) -> LabelCounts:
    """Read what a file would hold."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda *_, **__: StringIO(text).read())
        return load_label_counts("counts.csv", **options)


@given(tables_with_ids(), st.sampled_from([{}, {"sep": ";"}, {"sep": "\t"}, {"quoting": 1}]))
def test_what_is_certain_is_read(truth: pd.DataFrame, style: dict[str, Any]) -> None:
    """With the range of its classes a table is read, unless it adds up or is all flags."""
    own = truth.columns.astype(str)
    counts = truth.to_numpy()
    assume(counts.max() > 1)
    assume(not any((2 * counts[at] == counts.sum(axis=0)).all() for at in (0, -1)))
    found = read_text(truth.to_csv(**style), classes=f"{own[0]}..{own[-1]}")
    assert found.counts.tolist() == counts.tolist()
