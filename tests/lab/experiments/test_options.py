"""Settings classes know their own fields and their nested settings' fields."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from dubhe_flwr.errors import SettingsError
from dubhe_lab.experiments.options import CommandSettings, names, numbers, option, same


@dataclass(frozen=True, kw_only=True)
class Size(CommandSettings):
    """Settings to nest in other settings."""

    num_clients: int = option(5, "N.", least=1, quick=2)
    seed: int | None = option(None, "Seed.", least=0)


@dataclass(frozen=True, kw_only=True)
class Trial(CommandSettings):
    """Settings with nested settings."""

    size: Size = field(default_factory=Size)
    engine: str = option("ray", "Simulator.", choices=("ray", "inprocess"))
    again: int = same(Size, "num_clients", quick=3)
    methods: tuple[str, ...] = option(("random",), "Methods.", choices=("random", "dubhe"))


def test_settings_are_made_from_flat_names() -> None:
    """Settings are made from flat names and give them back; None stands for the default."""
    made = Trial.of(num_clients=7, seed=None, engine=None)
    assert made == Trial(size=Size(num_clients=7))
    of_own = {"engine": "ray", "again": 5, "methods": ("random",)}
    assert made.flat() == {"num_clients": 7, "seed": None} | of_own
    assert [own.name for own in Trial.flat_fields()] == list(made.flat())
    with pytest.raises(TypeError, match="colour"):
        Trial.of(colour="red")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"num_clients": 0}, "num_clients=0 must be at least 1."),
        ({"seed": -1}, "seed=-1 must be at least 0."),
        ({"again": 0}, "again=0 must be at least 1."),
        ({"engine": "spark"}, "engine='spark' is unknown; choose one of ray, inprocess."),
        ({"methods": ("dubhe", "luck")}, "methods='luck' is unknown; choose one of random, dubhe."),
    ],
)
def test_invalid_values_are_refused(given: dict[str, Any], sentence: str) -> None:
    """An invalid value is refused in a sentence that names its field, nested or not."""
    with pytest.raises(SettingsError) as caught:
        Trial.of(**given)
    assert str(caught.value) == sentence


def test_a_field_can_be_copied() -> None:
    """A copied field keeps limits and help, except for the given changes."""
    (again,) = (own for own in Trial.flat_fields() if own.name == "again")
    assert again.metadata["about"] == "N."
    assert (again.metadata["quick"], again.default) == (3, 5)


@dataclass(frozen=True, kw_only=True)
class Weather:
    """A class declared by another package.

    Parameters
    ----------
    degrees : int
        ``T``: degrees.
    wind : float, optional (default: as `degrees` has it)
        Metres
        a second.

    Raises
    ------
    SettingsError
        In no case.
    """

    degrees: int
    wind: float | None = None


@dataclass(frozen=True, kw_only=True)
class Forecast(CommandSettings):
    """Settings that take over fields of another class."""

    degrees: int = same(Weather, "degrees", default=9)
    wind: float | None = same(Weather, "wind", before="(air) ", after=" Or so.")


def test_options_are_taken_over_from_a_documented_class() -> None:
    """Fields keep default and help, which the class's docstring has."""
    assert Forecast().flat() == {"degrees": 9, "wind": None}
    own = {each.name: each.metadata for each in Forecast.flat_fields()}
    assert own["degrees"]["about"] == "T: degrees."
    assert own["wind"]["about"] == "(air) Metres a second. Or so."
    assert own["wind"]["shown"] == "as degrees has it"


def test_lists_are_parsed() -> None:
    """Lists of names and of numbers are parsed from text."""
    assert names("methods", " random, dubhe,") == ("random", "dubhe")
    assert numbers("seeds", "0, 1") == (0, 1)
    with pytest.raises(SettingsError, match="seeds='one' must be numbers separated by commas"):
        numbers("seeds", "one")
