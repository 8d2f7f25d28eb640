"""Clients without a Grid are asked one by one, and none of them can hold up a stage."""

import threading
from concurrent.futures import wait
from typing import Any

import pytest
from flwr.common import Code, EvaluateRes, Status
from flwr.server.client_proxy import ClientProxy

from dubhe_flwr.protocol import Batch, NodeFailure
from dubhe_flwr.protocol.envelope import Envelope
from dubhe_flwr.protocol.messages import HelloRequest
from dubhe_flwr.server import proxies as proxies_module
from dubhe_flwr.server.proxies import node_id_of, send_to_proxies


class Proxy(ClientProxy):
    """Answers at once, with an error, with something else, or not before it is let go."""

    def __init__(self, cid: str, behaviour: str = "answer") -> None:
        super().__init__(cid)
        self.behaviour = behaviour
        self.let_go = threading.Event()

    def evaluate(self, ins: Any, timeout: float | None, group_id: int | None) -> EvaluateRes:
        if self.behaviour == "hang":
            self.let_go.wait()
        if self.behaviour == "raise":
            raise ConnectionError("gone")
        metrics: Any = {} if self.behaviour == "other" else {"dubhe.alias": self.cid}
        return EvaluateRes(Status(Code.OK, ""), 0.0, 0, metrics)

    def get_properties(self, ins: Any, timeout: Any, group_id: Any) -> Any:
        raise NotImplementedError

    get_parameters = fit = reconnect = get_properties


def test_who_does_not_answer_in_time_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that hangs for ever costs its own reply and no more."""
    proxies = [
        Proxy("1"),
        Proxy("2", "hang"),
        Proxy("3", "raise"),
        Proxy("4", "other"),
        Proxy("5"),
    ]
    clients: dict[int, ClientProxy] = {node_id_of(proxy): proxy for proxy in proxies}
    batch = Batch(Envelope(bytes(16), "hello", 1), dict.fromkeys(clients, HelloRequest()))

    def until_others_answered(answers: list[Any], timeout: float | None) -> Any:
        assert timeout == 7.0
        return wait([answer for position, answer in enumerate(answers) if position != 1])

    monkeypatch.setattr(proxies_module, "wait", until_others_answered)
    try:
        replies = send_to_proxies(clients, batch, timeout=7.0)
    finally:
        proxies[1].let_go.set()
    first, _, third, fourth, fifth = clients
    assert replies == {
        first: {"alias": "1"},
        third: NodeFailure("ConnectionError"),
        fourth: NodeFailure("no reply of the protocol"),
        fifth: {"alias": "5"},
    }
