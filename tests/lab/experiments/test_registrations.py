"""Registrations in the clear end like registrations through the protocol."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from protocol.federation import Federation, epoch_of, node_policies, registered

from dubhe_flwr.adapter.arguments import DubheArguments
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.coordinator.coordinator import Coordinator
from dubhe_flwr.rules import Paper, Prices, Tries
from dubhe_lab import study
from dubhe_lab.experiments.registrations import drawn_rounds, has_lasting_noise, registrations
from dubhe_lab.experiments.selections import rounds_in_memory, simulated_nodes

SETTINGS = DubheArguments(num_participants=20, rule=Prices(noise=1.0), seed=0, simulation="plain")


def federation(num_clients: int) -> Any:
    """Draw label counts (N, 5) of clients whose sizes differ."""
    rng = np.random.default_rng(0)
    mixes = rng.dirichlet([0.9, 0.4, 0.2, 0.1, 0.05], size=num_clients)
    sizes = np.exp(rng.uniform(np.log(22), np.log(291), num_clients)).astype(int)
    return np.array([rng.multinomial(n, mix) for n, mix in zip(sizes, mixes, strict=True)])


def times_selected(rounds: Iterable[Iterable[int]], num_clients: int) -> Any:
    """Return how often each client was selected."""
    return np.bincount([client for own in rounds for client in own], minlength=num_clients)


class NoiseOfMembers:
    """Returns the uniform numbers from which a simulation's committee makes its noise."""

    def __init__(self) -> None:
        self.exchange = 0

    def random(self, shape: tuple[int, ...] | None = None) -> Any:
        """Return what each member adds to the next sum; without a shape, a node's dither."""
        if shape is None:
            return 0.5
        num_members, *rest = shape
        paths = [(1, self.exchange, place) for place in range(num_members)]
        self.exchange += 1
        return np.array([generator(7, "member", *path).random(rest) for path in paths])


@pytest.mark.parametrize(("num_participants", "equal_weights"), [(15, False), (40, True)])
def test_the_same_noise_gives_the_protocols_prices(
    num_participants: int, *, equal_weights: bool
) -> None:
    """With the noise of a simulated committee, all clients settle at exactly the same prices."""
    counts = federation(60)
    settings = replace(
        SETTINGS,
        rule=Prices(),
        seed=7,
        num_participants=num_participants,
        equal_weights=equal_weights,
    )
    nodes = Federation(Coordinator(settings), node_policies(counts))
    nodes.play(1)
    rng: Any = NoiseOfMembers()
    settled = next(registrations(settings, counts, rng))
    assert rng.exchange == epoch_of(nodes).registration.last_sum.number + 1 > 1
    assert {each.state for each in settled} == {registered(nodes, nodes.ids[0]).state}
    near = [registered(nodes, node_id).probability for node_id in nodes.ids]
    assert np.corrcoef(near, [each.probability for each in settled])[0, 1] > 0.95


def test_clients_are_selected_as_often_as_by_the_protocol() -> None:
    """Over six registrations, the same clients are selected most often.

    Two sets of six registrations through the protocol correlate by 0.96 or more.
    """
    counts = federation(50)
    nodes = simulated_nodes(counts)
    by_protocol, in_the_clear = np.zeros((2, 50))
    for seed in range(6):
        settings = replace(SETTINGS, seed=seed)
        plans = islice(rounds_in_memory(Coordinator(settings), nodes), 20)
        by_protocol += times_selected((plan.participants for plan in plans), 50)
        rng = np.random.default_rng(seed)
        rounds = drawn_rounds(settings, next(registrations(settings, counts, rng)), rng)
        in_the_clear += times_selected(islice(rounds, 20), 50)
    assert by_protocol.sum() == in_the_clear.sum() == 6 * 20 * 20
    assert np.corrcoef(by_protocol, in_the_clear)[0, 1] > 0.9


@pytest.mark.parametrize(
    ("changed", "lasts"),
    [
        ({}, True),
        ({"rule": Prices()}, True),
        ({"rule": Prices(noise=0.0)}, False),
        ({"rule": Paper((1, 5))}, False),
        ({"determination": Tries(20)}, False),
        ({"num_participants": 50}, False),
    ],
)
def test_noise_lasts_only_with_noisy_prices(*, changed: dict[str, Any], lasts: bool) -> None:
    """Noise does not last if there is none, an agent chooses, or all clients are selected."""
    counts = np.ones((50, 10), dtype=np.int64)
    assert has_lasting_noise(replace(SETTINGS, **changed), counts) == lasts


@pytest.mark.slow
@pytest.mark.usefixtures("few_rounds")
def test_the_seed_does_not_decide_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the mean of many registrations, and says how much a single one may differ."""
    monkeypatch.setattr("dubhe_lab.experiments.my_federation._REGISTRATIONS", 16)
    found = [study(federation(50), num_participants=10, key_bits=512, seed=own) for own in range(2)]
    assert {own.helps for own in found} == {"much"}
    lasting = [own.methods["dubhe"].lasting for own in found]
    assert abs(lasting[0] - lasting[1]) < 0.15  # four standard deviations of the difference
    for own in found:
        assert own.lasting_range is not None
        low, high = own.lasting_range
        assert high - low > 0.1
        assert f"is {low:.2f} to {high:.2f} from uniform in nine of ten runs." in own.verdict


@pytest.mark.usefixtures("few_rounds")
def test_each_registration_of_a_large_federation_is_of_a_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only `max_registered` clients train until the next registration, which takes others."""
    monkeypatch.setattr("dubhe_lab.experiments.my_federation._ROUNDS", 100)
    found = study(federation(600), num_participants=10, max_registered=60, key_bits=512)
    assert 0.06 < found.methods["dubhe"].coverage < 0.1  # .27 if all registered, .04 in one sample


@pytest.mark.parametrize(("concentration", "is_closer"), [(1.0, True), (10.0, False)])
def test_the_federations_own_mix_is_met_within_the_noise(
    concentration: float, *, is_closer: bool
) -> None:
    """With `target="own"`, rounds gain if clients differ a lot, but an error always lasts."""
    rng = np.random.default_rng(0)
    mixes = rng.dirichlet(np.geomspace(0.1, 0.01, 10) * 4 * concentration, size=150)
    counts = np.array([rng.multinomial(80, mix) for mix in mixes])
    shares, own = counts / 80, counts.sum(axis=0) / counts.sum()
    settings = replace(SETTINGS, rule=Prices(target="own"), equal_weights=True)
    rounds, errors = list[list[int]](), list[float]()
    for settled in islice(registrations(settings, counts, rng), 12):
        chances = np.array([each.probability for each in settled])
        errors.append(np.abs(chances @ shares / chances.sum() - own).sum())
        rounds += islice(drawn_rounds(settings, settled, rng), 20)
    at_random = [rng.choice(150, 20, replace=False) for _ in rounds]
    by_price, by_chance = (
        np.mean([np.abs(shares[each].mean(axis=0) - own).sum() for each in some])
        for some in (rounds, at_random)
    )
    assert (by_price < by_chance) == is_closer
    assert np.mean(errors) > 0.08  # random selection has none
