"""Tests of the settings: invalid ones are refused before the first message."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from protocol.nodes import Exchanges

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Settings
from dubhe_flwr.protocol.wire.messages import JoinRequest
from dubhe_flwr.rules import Paper, Prices, Tries, register_rule

RULE = Paper((1, 2, 10))
VALID: dict[str, Any] = {"num_participants": 20, "rule": RULE}


@register_rule
@dataclass(frozen=True)
class Settings32(Exchanges):
    """A rule with a setting, and a large pool."""

    share: Any = 0.5

    name: ClassVar[str] = f"settings of {__name__}"  # pytest imports this module twice

    def determination(self, num_participants: int) -> Tries:
        """Many more volunteers than participants."""
        return Tries(1, 50)


@pytest.mark.parametrize(("num_participants", "pool"), [(50, 1), (40, 1), (25, 2), (3, 10)])
def test_prices_choose_from_a_single_try(num_participants: int, pool: int) -> None:
    """K clients volunteer, or more where noise needs it, and no agent sums few of them."""
    settings = Settings(num_participants=num_participants)
    assert settings.determined == Tries(1, pool)
    assert not settings.announced(seed=1).has_agent
    exact = Settings(num_participants=num_participants, rule=Prices(noise=0.0))
    assert exact.determined == Tries(1)


@pytest.mark.parametrize("given", [None, Tries(6), Tries(1, 5), Tries(4, 5)])
def test_the_determination_is_announced(given: Tries | None) -> None:
    """Nodes are told everything except the number of tries, which is 20 under the paper's rule."""
    settings = Settings(**VALID, determination=given)
    assert settings.determined == (given or Tries(20))
    announced = settings.announced(seed=1)
    assert announced.pool == settings.determined.pool
    assert announced.has_agent == (settings.determined.number > 1)


def test_every_number_that_a_node_checks_is_announced() -> None:
    """Each number that a node checks reaches it; the server's own seed does not."""
    settings = Settings(
        num_participants=4,
        rule=Paper((1, 3), {1: 0.5}),
        determination=Tries(6),
        registration_interval=7,
        min_cohort=2,
        key_bits=512,
        max_registered=80,
        max_draws_per_epoch=90,
        seed=5,
    )
    rule = '{"reference_set": [1, 3], "thresholds": {"1": 0.5}}'
    assert settings.announced(seed=5) == JoinRequest(
        "paper", rule, 4, 512, 80, 2, 90, weighted=True
    )


@pytest.mark.parametrize(
    ("simulation", "simulated", "vault"),
    [(None, False, "paillier"), ("encrypted", True, "paillier"), ("plain", True, "plain")],
)
def test_only_simulated_nodes_are_told_the_seed(
    simulation: Any, simulated: bool, vault: str
) -> None:
    """Whether there is one and how sums are formed; real nodes are never told the seed."""
    announced = Settings(**VALID, seed=5, simulation=simulation).announced(seed=5)
    assert (announced.simulated, announced.vault) == (simulated, vault)
    assert announced.simulation_seed == (5 if simulated else None)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        *(
            ({name: least - 1}, f"{name}={least - 1} must be at least {least}, and below 2")
            for name, least in (
                *(("num_participants", 1), ("quorum", 1)),
                *(("registration_interval", 1), ("rounds_per_draw", 1), ("min_cohort", 2)),
                *(("max_registered", 1), ("key_bits", 512), ("max_draws_per_epoch", 1)),
                ("seed", 0),
            )
        ),
        ({"seed": 2**63}, "seed=.* and below 2"),
        *(
            ({name: value}, f"{name}={value!r} must be a whole number")
            for name, value in (
                *(("quorum", 3.0), ("num_participants", "20")),
                *(("key_bits", None), ("quorum", False)),
            )
        ),
        ({"seed": np.int64(9)}, "seed=.*9.* must be a whole number, a Python int"),
        *(
            ({"max_unregistered": value}, f"max_unregistered={value!r} must be a share from 0 to 1")
            for value in (1.1, -0.1, float("nan"), "0.2", None)
        ),
        ({"rule": (1, 2, 10)}, r"rule=\(1, 2, 10\) is not a participation rule; .*Prices\(\)"),
        ({"rule": Paper}, "is not a participation rule"),
        ({"determination": "tries"}, r"determination='tries' must be Tries\(20\) or the"),
        ({"on_failure": "ignore"}, "on_failure='ignore' must be one of .*'raise', 'random'"),
        ({"simulation": "yes"}, r"simulation='yes' must be one of \(None, 'plain', 'encrypted'\)"),
        ({"num_participants": 2}, "num_participants=2 is below min_cohort=3, the fewest"),
        ({"quorum": 2}, "quorum=2 is below min_cohort=3; raise quorum"),
        ({"max_registered": 19}, "num_participants=20 is above max_registered=19; raise max_reg"),
        ({"quorum": 2001}, "quorum=2001 is above max_registered=2000; raise max_registered"),
        (
            {"max_draws_per_epoch": 999},
            "makes 1000 draws, above max_draws_per_epoch=999; lower one",
        ),
        (
            {"determination": Tries(1, 20), "max_draws_per_epoch": 999},
            "makes 1000 draws, above max_draws_per_epoch=999; lower one",
        ),
        (
            {"determination": Tries(2**11), "rounds_per_draw": 2**10, "max_draws_per_epoch": 2**20},
            "rounds_per_draw=1024 rounds makes more than 1048576 draws in one message",
        ),
        ({"key_bits": 1000}, "key_bits=1000 must be a multiple of 16"),
        ({"key_bits": 16384}, "keys of 8192 bits, not 10 and 16384"),
        ({"max_registered": 2**42}, "The terms of the epoch are invalid"),
        ({"rule": Paper((1, 2, 62), "search"), "key_bits": 512}, "The rule takes .* ciphertexts"),
        ({"rule": Prices(), "key_bits": 2050}, "key_bits=2050 must be a multiple of 16"),
        ({"rule": Prices(), "key_bits": 16384}, "keys of 8192 bits"),
        ({"rule": Prices(), "max_registered": 2**50}, "The terms of the epoch are invalid"),
        (
            {"rule": Settings32(share=np.float32(0.5)), "determination": Tries()},
            r"The settings of Settings32.* cannot be written as JSON",
        ),
        ({"rule": Settings32(), "max_draws_per_epoch": 1000}, "pool=50.* makes 2500 draws"),
        ({"max_registered": 95_326}, "at most 95325 nodes can register with key_bits=2048"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(change: dict[str, Any], sentence: str) -> None:
    """The error is one sentence with the value and the remedy."""
    with pytest.raises(SettingsError, match=sentence):
        Settings(**VALID | change)


@pytest.mark.parametrize(
    "change",
    [
        {"num_participants": 3}, {"num_participants": 2, "min_cohort": 2}, {"quorum": 3},
        {"quorum": 2000}, {"max_registered": 20}, {"max_unregistered": 0},
        {"max_unregistered": 1.0}, {"max_draws_per_epoch": 1000}, {"max_registered": 95_325},
        {"rule": Settings32(), "determination": Tries()},
        {"max_registered": 95_326, "simulation": "plain"}, {"key_bits": 512}, {"seed": 2**63 - 1},
        {"determination": Tries(1, 100), "max_draws_per_epoch": 5000},
        {
            "determination": Tries(2**10), "rounds_per_draw": 2**10,
            "max_draws_per_epoch": 2**20,
        },
        {
            "determination": Tries(1, 2**11), "rounds_per_draw": 2**10,
            "max_draws_per_epoch": 2**20,
        },
    ],
)  # fmt: skip
def test_a_setting_at_the_limit_is_accepted(change: dict[str, Any]) -> None:
    """The limits themselves are allowed."""
    assert Settings(**VALID | change).announced(seed=1)


def test_trusted_keys_are_checked_and_not_announced() -> None:
    """Any iterable works and is read once; nodes learn nothing of the keys."""
    keys = [Ed25519PrivateKey.generate().public_key() for _ in range(3)]
    settings = Settings(**VALID, trusted_keys=iter(keys))
    assert settings.trusted is not None
    assert len(settings.trusted) == len(Settings(**VALID, trusted_keys=keys).trusted or ()) == 3
    assert settings.announced(seed=1) == Settings(**VALID).announced(seed=1)
    for wrong in ([], [*keys, keys[0]], ["node.pub"]):
        with pytest.raises(SettingsError, match="trusted_keys"):
            Settings(**VALID, trusted_keys=wrong)  # type: ignore[arg-type]
    for name in (5, "keys.txt", Path("keys.txt"), b"key"):
        with pytest.raises(SettingsError, match=r"trusted_keys is a .*load_trusted_keys"):
            Settings(**VALID, trusted_keys=name)  # type: ignore[arg-type]
