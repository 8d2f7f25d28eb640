"""Clients without a Grid are asked one by one, and none of them can hold up a stage."""

import threading
from typing import Any

import pytest
from dubhe_flwr.protocol.envelope import Envelope
from dubhe_flwr.protocol.messages import HelloRequest
from flwr.common import Code, EvaluateRes, Status
from flwr.server.client_proxy import ClientProxy

from dubhe_flwr.protocol import Batch, NodeFailure
from dubhe_flwr.server import proxies as proxies_module
from dubhe_flwr.server.proxies import node_id_of, send_to_proxies


class Proxy(ClientProxy):
    """Answers at once, with an error, with something else, or only when it is let go."""

    def __init__(self, cid: str, behaviour: str = "answer") -> None:
        super().__init__(cid)
        self.behaviour = behaviour
        self.let_go = threading.Event()

    def evaluate(self, ins: Any, timeout: float | None, group_id: int | None) -> EvaluateRes:
        self.told()
        if self.behaviour == "hang":
            self.let_go.wait()
        if self.behaviour == "raise":
            raise ConnectionError("gone")
        if self.behaviour == "?":
            return None  # type: ignore[return-value]
        metrics: Any = {} if self.behaviour == "other" else {"dubhe.alias": self.cid}
        return EvaluateRes(Status(Code.OK, ""), 0.0, 0, metrics)

    def told(self) -> None:
        """Take note of a request."""

    def get_properties(self, ins: Any, timeout: Any, group_id: Any) -> Any:
        raise NotImplementedError

    get_parameters = fit = reconnect = get_properties


class Clock:
    """Stands still until it was read so often."""

    def __init__(self, readings: int) -> None:
        self.readings = readings

    def __call__(self) -> float:
        self.readings -= 1
        return 0.0 if self.readings >= 0 else 100.0


def hello(proxies: list[Proxy]) -> tuple[dict[int, ClientProxy], Batch]:
    """Return the proxies by node id, and a request to each."""
    clients: dict[int, ClientProxy] = {node_id_of(proxy): proxy for proxy in proxies}
    return clients, Batch(Envelope(bytes(16), "hello", 1), dict.fromkeys(clients, HelloRequest()))


def test_who_does_not_answer_in_time_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies that hang cost their own replies and no more, and do not keep the process alive."""
    hanging = [Proxy(f"hang-{number}", "hang") for number in range(40)]
    answering = [Proxy("1"), Proxy("3", "raise"), Proxy("4", "other"), Proxy("5"), Proxy("6", "?")]
    clients, batch = hello([*hanging, *answering])
    monkeypatch.setattr(proxies_module, "monotonic", Clock(1 + len(answering)))
    before = set(threading.enumerate())
    try:
        replies = send_to_proxies(clients, batch, timeout=60.0)
        held = set(threading.enumerate()) - before
        assert len(held) >= len(hanging)
        assert all(thread.daemon for thread in held)
    finally:
        for proxy in hanging:
            proxy.let_go.set()
    first, third, fourth, fifth, sixth = (node_id_of(proxy) for proxy in answering)
    assert replies == {
        first: {"alias": "1"},
        third: NodeFailure("ConnectionError"),
        fourth: NodeFailure("no reply of the protocol"),
        fifth: {"alias": "5"},
        sixth: NodeFailure("AttributeError"),
    }


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_more_proxies_than_are_asked_at_once(
    timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are asked as soon as one has answered, and no time limit is one."""
    monkeypatch.setattr(proxies_module, "_MOST_AT_ONCE", 2)
    clients, batch = hello([Proxy(str(number)) for number in range(9)])
    replies = send_to_proxies(clients, batch, timeout)
    assert replies == {node_id: {"alias": proxy.cid} for node_id, proxy in clients.items()}


def test_who_was_not_asked_in_time_is_not_asked_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late request would be one that nobody waits for."""
    first, second = proxies = [Proxy("1", "hang"), Proxy("2")]
    clients, batch = hello(proxies)
    monkeypatch.setattr(proxies_module, "_MOST_AT_ONCE", 1)
    asked = []
    monkeypatch.setattr(Proxy, "told", lambda proxy: asked.append(proxy.cid))
    before = set(threading.enumerate())
    assert send_to_proxies(clients, batch, timeout=0.0) == {}
    first.let_go.set()
    for worker in set(threading.enumerate()) - before:
        worker.join()
    assert second.cid not in asked
