"""Tests of the baselines by name."""

from dubhe_lab.experiments import METHODS, StudySettings
from dubhe_lab.experiments.settings import DUBHE
from dubhe_lab.experiments.study import study

_BY_LOSSES = {"powd", "afl", "oort"}  # these need a model, which a study does not train
BASELINES = tuple(name for name in METHODS if name not in {*DUBHE, *_BY_LOSSES})


def test_every_oracle_balances_its_own_way() -> None:
    """Every oracle is closer to uniform than random selection, and no two select alike."""
    given = {"num_clients": 120, "num_participants": 10, "num_samples": 64, "num_rounds": 12}
    found = study(StudySettings.of(**given, seed=3), methods=BASELINES).methods
    assert len({result.emd for result in found.values()}) == len(BASELINES) == 5
    for name in BASELINES[1:]:
        assert found[name].mean_emd < 0.9 * found["random"].mean_emd, name
