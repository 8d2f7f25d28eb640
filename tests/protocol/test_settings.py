"""Tests of the settings: invalid ones are refused before the first message."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from protocol.nodes import Exchanges

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.rules import Paper, Prices, Tries

VALID: dict[str, Any] = {"num_participants": 20, "rule": Paper((1, 2, 10))}


@pytest.mark.parametrize(
    ("given", "determination"),
    [
        ({"num_participants": 25}, Tries(1)),
        ({"num_participants": 3, "rule": Prices(noise=0.0)}, Tries(1)),
        (VALID, Tries(20)),
        *((VALID | {"determination": tries}, tries) for tries in (Tries(1), Tries(4))),
    ],
)
def test_the_determination_is_announced(given: dict[str, Any], determination: Tries) -> None:
    """Prices take one try, and the paper's rule takes 20."""
    settings = Settings(**given)
    assert settings.determined == determination
    announced = settings.announced(seed=1)
    assert announced.has_agent == (determination.number > 1)


@pytest.mark.parametrize(
    ("simulation", "told"),
    [
        (None, {"vault": "paillier"}),
        ("encrypted", {"vault": "paillier", "simulation_seed": 5}),
        ("plain", {"vault": "plain", "simulation_seed": 5}),
    ],
)
def test_every_number_that_a_node_checks_is_announced(simulation: Any, told: Any) -> None:
    """Each number that a node checks reaches it; only simulated nodes learn the seed."""
    settings = Settings(
        num_participants=4,
        rule=Paper((1, 3), {1: 0.5}),
        determination=Tries(6),
        registration_interval=7,
        min_cohort=2,
        key_bits=512,
        max_registered=80,
        simulation=simulation,
    )
    rule = '{"reference_set": [1, 3], "thresholds": {"1": 0.5}}'
    expected = JoinRequest("paper", rule, 4, 512, 80, 2, weighted=True, **told)
    assert settings.announced(seed=5) == expected


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        *(
            ({name: least - 1}, f"{name}={least - 1} must be at least {least}, and below 2")
            for name, least in (
                *(("num_participants", 1), ("quorum", 1)),
                *(("registration_interval", 1), ("rounds_per_draw", 1), ("min_cohort", 2)),
                *(("max_registered", 1), ("key_bits", 512), ("seed", 0)),
            )
        ),
        ({"seed": 2**63}, "seed=.* and below 2"),
        *(
            ({name: value}, f"{name}={value!r} must be a whole number, a Python int")
            for name, value in (("num_participants", "20"), ("key_bits", None), ("quorum", False))
        ),
        ({"seed": np.int64(9)}, "seed=.*9.* must be a whole number, a Python int"),
        *(
            ({"max_unregistered": value}, f"max_unregistered={value!r} must be a share from 0 to 1")
            for value in (1.1, -0.1, float("nan"), "0.2")
        ),
        ({"rule": (1, 2, 10)}, r"rule=\(1, 2, 10\) is not a participation rule; .*Prices\(\)"),
        (
            {"determination": "tries"},
            r"determination='tries' must be a Tries .*such as Tries\(20\)",
        ),
        ({"on_failure": "ignore"}, "on_failure='ignore' must be one of .*'raise', 'random'"),
        ({"simulation": "yes"}, r"simulation='yes' must be one of \(None, 'plain', 'encrypted'\)"),
        ({"num_participants": 2}, "num_participants=2 is below min_cohort=3, the fewest"),
        ({"quorum": 2}, "quorum=2 is below min_cohort=3; raise quorum"),
        ({"max_registered": 19}, "num_participants=20 is above max_registered=19; raise max_reg"),
        ({"quorum": 2001}, "quorum=2001 is above max_registered=2000; raise max_registered"),
        (
            {"determination": Tries(2**11), "rounds_per_draw": 2**10},
            "rounds_per_draw=1024 rounds makes more than 65536 draws in one message",
        ),
        ({"key_bits": 1000}, "key_bits=1000 must be a multiple of 16"),
        ({"key_bits": 16384}, "keys of 8192 bits, not 10 and 16384"),
        ({"max_registered": 2**40}, "The terms of the registration period are invalid"),
        ({"rule": Paper((1, 2, 62), "search"), "key_bits": 512}, "The rule takes .* ciphertexts"),
        ({"rule": Prices(), "key_bits": 2050}, "key_bits=2050 must be a multiple of 16"),
        (
            {"rule": Prices(), "max_registered": 2**50},
            "The terms of the registration period are invalid",
        ),
        (
            {"rule": Exchanges(local_skew=np.float32(0.5))},  # type: ignore[arg-type]
            r"The settings of Exchanges.* cannot be written as JSON",
        ),
        ({"max_registered": 95_326}, "at most 95325 nodes can register with key_bits=2048"),
        ({"rule": Prices(target="own"), "determination": Tries(2)}, "does not know target='own'"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(change: dict[str, Any], sentence: str) -> None:
    """The error is one sentence with the value and the remedy."""
    with pytest.raises(SettingsError, match=sentence):
        Settings(**VALID | change)


@pytest.mark.parametrize(
    "change",
    [
        {"num_participants": 3, "quorum": 3, "max_registered": 3, "max_unregistered": 0},
        {"num_participants": 2, "min_cohort": 2, "key_bits": 512, "seed": 2**63 - 1},
        {"quorum": 2000, "max_unregistered": 1.0},
        {"max_registered": 95_325},
        {"max_registered": 95_326, "simulation": "plain"},
        {"determination": Tries(2**10), "rounds_per_draw": 2**6},
        {"determination": Tries(1), "rounds_per_draw": 2**16},
    ],
)
def test_a_setting_at_the_limit_is_accepted(change: dict[str, Any]) -> None:
    """The limits themselves are allowed."""
    assert Settings(**VALID | change).announced(seed=1)


def test_trusted_keys_are_checked_and_not_announced() -> None:
    """Any iterable works and is read once; nodes learn only that the server has keys."""
    keys = [Ed25519PrivateKey.generate().public_key() for _ in range(3)]
    settings = Settings(**VALID, trusted_keys=iter(keys))
    assert settings.trusted is not None
    assert all(key in settings.trusted for key in keys)
    without = Settings(**VALID).announced(seed=1)
    assert settings.announced(seed=1) == replace(without, has_trusted_keys=True)
    with pytest.raises(SettingsError, match="trusted_keys is empty"):
        Settings(**VALID, trusted_keys=[])


@pytest.mark.parametrize(
    ("num_participants", "num_clients", "determination", "note"),
    [
        (11, 19, None, "19 nodes are too few for prices: with fewer than 20, and K below 12, no"),
        (12, 19, None, None),
        (6, 18, None, "set determination=Tries(20)"),
        (6, 18, Tries(20), "only agents balance rounds."),
        (11, 13, Tries(20), "So clients are chosen at random; connect more nodes."),
        (11, 11, None, None),
        (11, 20, Tries(20), None),
    ],
)
def test_a_remark_says_what_chance_decides(
    num_participants: int, num_clients: int, determination: Tries | None, note: str | None
) -> None:
    """It advises tries only where an agent would have a choice."""
    settings = Settings(num_participants=num_participants, determination=determination)
    remark = settings.remark(num_clients)
    assert remark is None if note is None else note in (remark or "")


def test_too_few_nodes_for_any_number_of_participants_are_refused() -> None:
    """The error suggests fewer participants only if so few can work."""
    settings = Settings(num_participants=5)
    with pytest.raises(SettingsError, match="the number of nodes, 4; select 4 or fewer, or conn"):
        settings.check_federation(4)
    with pytest.raises(SettingsError, match="the number of nodes, 2; connect more"):
        settings.check_federation(2)
