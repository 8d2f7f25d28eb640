"""The paper's names of federations are read and written."""

import pytest

from dubhe_flwr.data import TABLE_1, NamedFederation
from dubhe_flwr.errors import SettingsError


@pytest.mark.parametrize(
    "name", ["CIFAR10-10/1.5", "CIFAR10-2/1.0", "MNIST-1/0.0", "FEMNIST-13.64/0.554"]
)
def test_a_name_that_is_read_is_written_again(name: str) -> None:
    """As the paper has it."""
    assert str(NamedFederation.parse(name)) == name


def test_the_parts_are_the_right_way_round() -> None:
    """The global skew comes first."""
    federation = NamedFederation.parse("MNIST-5/0.5")
    assert (federation.dataset, federation.rho, federation.emd) == ("MNIST", 5.0, 0.5)


@pytest.mark.parametrize("name", ["MNIST", "MNIST-10", "-10/1.5", "MNIST-x/1", "MNIST-1.2.3/1", ""])
def test_other_names_are_refused(name: str) -> None:
    """The message shows a good one."""
    with pytest.raises(SettingsError, match=r"as in CIFAR10-10/1\.5"):
        NamedFederation.parse(name)


def test_table_1_is_complete() -> None:
    """Two data sets with four by four skews, and FEMNIST."""
    assert len(set(TABLE_1)) == 33
    clients = {federation.dataset: federation.num_clients for federation in TABLE_1}
    assert clients == {"MNIST": 1000, "CIFAR10": 1000, "FEMNIST": 8962}
    assert all(NamedFederation.parse(str(federation)) == federation for federation in TABLE_1)
