"""Flower's clients by node id, who of them a strategy is offered, and their training together."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from apis import FIT
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import FitIns, FitRes, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.compat.grid_client_proxy import GridClientProxy

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.server.clients import SelectedClients, sent_together
from dubhe_flwr.simulation import InProcessGrid
from dubhe_flwr.simulation.meeting import meet


class Foreign(ClientProxy):
    """A client of something else than a ServerApp."""

    def get_properties(self, ins: Any, timeout: Any, group_id: Any) -> Any:
        raise NotImplementedError

    get_parameters = fit = evaluate = reconnect = get_properties


def test_clients_without_a_grid_are_refused() -> None:
    """Their ClientApps have no mod that could answer; the sentence names the way out."""
    manager = SimpleClientManager()
    manager.register(Foreign("7"))
    with pytest.raises(SettingsError, match=r"Client 7 is a Foreign, .* in a ServerApp"):
        FIT.dubhe().configure_fit(1, None, manager)


def test_all_selected_clients_are_offered() -> None:
    """However many are asked for, and nobody else, now or later."""
    clients = [Foreign("1"), Foreign("2")]
    offered = SelectedClients(clients)
    assert (offered.num_available(), offered.num_asked) == (2, 2)
    assert offered.sample(1, 99) == clients
    assert offered.num_asked == 1
    assert offered.all() == {"1": clients[0], "2": clients[1]}
    assert offered.wait_for(99)
    assert not offered.register(Foreign("3"))
    offered.unregister(clients[0])
    assert offered.num_available() == 2


class Meeting(NumPyClient):
    """Brings its parameter to the meeting, and fails if it is negative."""

    def fit(self, parameters: Any, config: Any) -> Any:
        """Return what came of the parameter, or minus one alone."""
        if parameters[0][0] < 0:
            raise ValueError("negative")
        result = meet(lambda: parameters[0][0])
        return [np.array([-1.0 if result is None else result])], 1, {}


def instructions(
    numbers: Sequence[float], cohort: Any
) -> tuple[InProcessGrid, list[tuple[ClientProxy, FitIns]]]:
    """Return an instruction with each number, for the nodes of a Grid."""
    app = ClientApp(client_fn=lambda context: Meeting().to_client())
    grid = InProcessGrid(app, len(numbers), cohort=cohort)
    return grid, [
        (
            GridClientProxy(node_id, grid, grid.run.run_id),
            FitIns(ndarrays_to_parameters([np.array([number])]), {}),
        )
        for node_id, number in zip(grid.get_node_ids(), numbers, strict=True)
    ]


def number_of(result: FitRes) -> float:
    """Return the only parameter."""
    return float(parameters_to_ndarrays(result.parameters)[0][0])


def doubled(tasks: list[float]) -> list[float]:
    """Work on the tasks, and tell by how many there are."""
    return [100 * len(tasks) + 2 * task for task in tasks]


def test_all_are_trained_in_one_batch() -> None:
    """Each proxy returns the reply of its own node, whoever asks first."""
    _, plain = instructions([1, 2, 3], doubled)
    together = sent_together(plain)
    found = [number_of(client.fit(ins, None, 1)) for client, ins in reversed(together)]
    assert found == [306, 304, 302]


def test_a_client_that_fails_costs_its_own_result() -> None:
    """The others meet without it."""
    together = sent_together(instructions([1, -2, 3], doubled)[1])
    assert number_of(together[0][0].fit(together[0][1], None, 1)) == 202
    with pytest.raises(ValueError, match="negative"):
        together[1][0].fit(together[1][1], None, 1)
    assert number_of(together[2][0].fit(together[2][1], None, 1)) == 206


def test_a_changed_instruction_goes_alone() -> None:
    """A strategy around this one may have changed it; what it made is what counts."""
    together = sent_together(instructions([1, 2], doubled)[1])
    client, ins = together[0]
    changed = replace(ins, parameters=ndarrays_to_parameters([np.array([5.0])]))
    assert number_of(client.fit(changed, None, 1)) == -1


def test_other_grids_are_left_alone() -> None:
    """Without a cohort, and for a single client, the proxies are Flower's own."""
    for numbers, cohort in (([1, 2], None), ([1], doubled)):
        _, plain = instructions(numbers, cohort)
        assert sent_together(plain) == plain
