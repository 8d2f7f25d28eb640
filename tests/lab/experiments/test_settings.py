"""Settings of experiments are checked before anything runs."""

from typing import Any

import pytest
from small_comparison import small_settings

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.rules import Paper, Prices, Tries
from dubhe_lab.experiments import CompareSettings, StudySettings

OF_BOTH = [
    *(
        ({f"num_{name}": 0}, f"num_{name}=0 must be at least 1")
        for name in ("clients", "samples", "rounds", "participants")
    ),
    ({"tries": 0}, "tries=0"),
    ({"num_participants": 2}, "num_participants=2 is below min_cohort=3"),
    ({"generator": "zipf"}, "generator='zipf' is unknown; choose one of dirichlet, mixture"),
    ({"rule": "luck"}, "rule='luck' is unknown; choose one of prices, paper"),
    ({"seed": -1}, "seed=-1"),
    ({"key_bits": 100}, "key_bits=100"),
    ({"tries": 2**16 + 1}, "makes more than 65536 draws in one message"),
]


OF_COMPARISONS = [
    ({"num_participants": 2000}, "num_participants=2000 is above num_clients=150; select fewer"),
    ({"dataset": "imagenet"}, r"dataset='imagenet' is unknown; choose one of digits, mnist"),
    ({"methods": ("random", "luck")}, "methods='luck' is unknown; choose one of random,"),
    ({"methods": ()}, "at least one method"),
    ({"methods": ("random", "random")}, "each once"),
    *(({n: 0}, f"{n}=0") for n in ("batch_size", "epochs", "evaluate_every", "num_threads")),
    ({"learning_rate": 0.0}, "learning_rate=0.0 must be above 0"),
    ({"learning_rate": float("nan")}, "learning_rate=nan"),
    ({"learning_rate": float("inf")}, "learning_rate=inf"),
]
OF_STUDIES = [
    ({"rule": "paper", "thresholds": (0.7,)}, r"one share for each of the sizes \(1, 2\)"),
    ({"rule": "paper", "thresholds": (0.7, 1.1)}, r"thresholds\[2\]=1.1 is not a share"),
    ({"rule": "paper", "thresholds": "best"}, "'best' must be 'search'"),
    ({"rule": "paper", "reference_set": ()}, r"reference_set=\(\) must hold sizes"),
    ({"registration_interval": 0}, "registration_interval=0 must be at least 1"),
]


def comparison(**given: Any) -> CompareSettings:
    """Return settings of a comparison, on digits by default."""
    return CompareSettings.for_dataset(**{"dataset": "digits", **given})


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        *((make, *case) for make in (StudySettings.of, comparison) for case in OF_BOTH),
        *((comparison, *case) for case in OF_COMPARISONS),
        *((StudySettings.of, *case) for case in OF_STUDIES),
    ],
)
def test_invalid_settings_are_refused(make: Any, given: dict[str, Any], message: str) -> None:
    """A comparison and a study refuse invalid values in a sentence with value and remedy."""
    with pytest.raises(SettingsError, match=message):
        make(**given)


def test_only_dubhe_needs_keys_and_cohorts() -> None:
    """The protocol's limits do not apply to the baselines."""
    settings = small_settings(methods=("random",), num_participants=1, key_bits=1)
    assert settings.selection.key_bits == 1


def test_none_stands_for_the_data_sets_default() -> None:
    """Options that are not given leave the data set's defaults alone."""
    found = {
        name: CompareSettings.for_dataset(name.upper(), num_clients=None).flat()
        for name in ("digits", "mnist")
    }
    assert [of["num_clients"] for of in found.values()] == [150, 1000]
    assert [of["learning_rate"] for of in found.values()] == [0.1, 0.05]
    assert [of["num_rounds"] for of in found.values()] == [60, 60]
    adam = [CompareSettings.for_dataset(name, optimizer="adam").training.rate for name in found]
    assert adam == [3e-3, 1e-4]


def test_the_reference_set_says_how_many_classes_there_are() -> None:
    """Unless the number is given."""
    assert StudySettings.of(reference_set=(1, 12)).classes == 12
    assert StudySettings.of(num_classes=3).classes == 3


def test_thresholds_are_in_the_order_of_the_reference_set() -> None:
    """Thresholds follow the reference set in any order; the number of classes has none."""

    def candidates(**given: Any) -> tuple[dict[int, float], ...]:
        rule = StudySettings.of(rule="paper", **given).protocol_settings().rule
        assert isinstance(rule, Paper)
        return rule.candidates

    assert candidates(reference_set=(10, 2, 1), thresholds=(0.1, 0.7)) == ({1: 0.7, 2: 0.1},)
    assert candidates(reference_set=(10,), thresholds=()) == ({},)
    assert len(candidates(reference_set=(1, 52))) > 1


def test_everything_reaches_the_protocol() -> None:
    """Every setting reaches the protocol."""
    given: dict[str, Any] = {
        "num_participants": 30,
        "registration_interval": 9,
        "key_bits": 1024,
        "seed": 5,
    }
    prices: dict[str, Any] = {"coverage": 0.4, "local_skew": 0.2, "target": (0.1,) * 10}
    protocol = StudySettings.of(**given, **prices, tries=7, num_clients=5000).protocol_settings()
    assert {name: getattr(protocol, name) for name in given} == given
    assert protocol.rule == Prices(**prices)
    assert protocol.determination == Tries(7)
    assert protocol.max_registered == 5000
    assert protocol.simulation == "plain"


@pytest.mark.parametrize(("rule", "usual"), [("prices", 1), ("paper", 20)])
def test_the_rules_own_number_of_tries(rule: str, usual: int) -> None:
    """Without tries, the rule says how many there are."""
    default, named = (StudySettings.of(rule=rule, tries=tries) for tries in (None, usual))
    determined = default.protocol_settings().determined
    assert determined == named.protocol_settings().determined
    assert determined.number == usual


def test_a_method_sets_its_rule() -> None:
    """A method sets its rule and keeps all other selection settings."""
    settings = small_settings(num_participants=5, tries=7)
    paper, dubhe = (settings.protocol_settings(name) for name in ("dubhe-paper", "dubhe"))
    assert (paper.determination, paper.rule) == (Tries(7), Paper((1, 2, 10)))
    assert (dubhe.determination, dubhe.rule) == (Tries(7), Prices())
