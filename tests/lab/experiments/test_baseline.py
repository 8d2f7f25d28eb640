"""Tests of the methods that are not Dubhe: each name is its own way of selecting."""

from dubhe_lab.experiments import METHODS, StudySettings
from dubhe_lab.experiments.settings import DUBHE
from dubhe_lab.experiments.study import study

_BY_LOSSES = {"powd", "afl", "oort"}  # which a study without a model has none of
BASELINES = tuple(name for name in METHODS if name not in {*DUBHE, *_BY_LOSSES})


def test_every_oracle_balances_its_own_way() -> None:
    """Closer to uniform than random selection, and no two select alike."""
    given = {"num_clients": 120, "num_participants": 10, "num_samples": 64, "num_rounds": 12}
    found = study(StudySettings.of(**given, seed=3), methods=BASELINES).methods
    assert len({result.emd for result in found.values()}) == len(BASELINES) == 5
    for name in BASELINES[1:]:
        assert found[name].mean_emd < 0.9 * found["random"].mean_emd, name
