"""Runs a Flower app in one process, on a Grid that calls the ClientApp for each message."""

import threading
import traceback
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from logging import ERROR
from os import cpu_count
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from dubhe_flwr.adapter._compat import (
    CLIENT_APP_ERROR,
    NODE_UNAVAILABLE,
    SERVER_NODE_ID,
    delivered_copy,
    new_run,
    set_message_id,
)
from dubhe_flwr.adapter.messages import STAGES, log, stage_of
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Stage

RunConfig = Mapping[str, bool | float | int | str]


class InProcessGrid(Grid):
    """Runs a ClientApp for a number of nodes, each with its own Context.

    Parameters
    ----------
    client_app : ClientApp
        The app that all nodes run.
    num_supernodes : int
        Number of nodes, at least 1.
    run_config : mapping, optional
        The app's `context.run_config`.
    seed : int (default: 0)
        Fixes the node ids.
    """

    is_complete = True  # no more nodes will connect
    run: Any = None  # to which all messages belong; the constructor makes one

    def __init__(
        self,
        client_app: ClientApp,
        num_supernodes: int,
        run_config: RunConfig | None = None,
        seed: int = 0,
    ) -> None:
        if num_supernodes < 1:
            raise SettingsError(f"num_supernodes={num_supernodes} must be at least 1.")
        self._client_app = client_app
        run_id = int(generator(seed, "run-id").integers(1, 2**62))
        self.run = new_run(run_id)
        self._lock = threading.Lock()
        self._message_numbers = count(1)
        self._replies: dict[str, Message] = {}
        # In random order, as on a real SuperLink. With 63 bits, ids do not repeat.
        node_ids = generator(seed, "node-ids").integers(2, 2**63 - 1, size=num_supernodes)
        self.contexts = {
            node_id: Context(
                run_id=run_id,
                node_id=node_id,
                node_config={"partition-id": partition, "num-partitions": num_supernodes},
                state=RecordDict(),
                run_config=dict(run_config or {}),
            )
            for partition, node_id in enumerate(node_ids.tolist())
        }

    def set_run(self, run: Any) -> None:
        """Set the run to which all messages belong."""
        self.run = run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Create a message; deprecated in Flower in favour of `Message`."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of all nodes."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Have each node answer its message at once; the replies wait to be pulled.

        Nodes answer one after another, because they share torch's random generator in training.
        Only requests to register, which nodes answer by encrypting, run on all cores. These do not
        reach the app's code, except for a mod before Dubhe's or a rule of its own, which then runs
        in several threads.
        """
        pushed = list(messages)
        for message in pushed:
            set_message_id(message, f"message-{next(self._message_numbers)}")
        message_ids = [message.metadata.message_id for message in pushed]
        with self._lock:  # Flower sends from several threads
            if all(stage_of(message) == Stage.REGISTER for message in pushed):
                with ThreadPoolExecutor(cpu_count()) as pool:
                    replies = list(pool.map(self._answer, pushed))
            else:
                replies = list(map(self._answer, pushed))
            self._replies.update(zip(message_ids, replies, strict=True))
        return message_ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to these messages, once."""
        replies = (self._replies.pop(message_id, None) for message_id in message_ids)
        return [reply for reply in replies if reply is not None]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages and return the replies, which come at once."""
        del timeout
        return self.pull_messages(self.push_messages(messages))

    def _answer(self, message: Message) -> Message:
        context = self.contexts.get(message.metadata.dst_node_id)
        if context is None:
            return Message(Error(NODE_UNAVAILABLE, "No such node."), reply_to=message)
        delivered = delivered_copy(message)
        try:
            reply = self._client_app(delivered, context)
            set_message_id(reply, f"reply-{message.metadata.message_id}")
        except Exception as error:  # noqa: BLE001 - every runtime turns it into an error reply
            # If the app has no handler for Dubhe, a traceback would not say more than the error.
            if not (type(error) is ValueError and stage_of(message) in STAGES):
                log(ERROR, "ClientApp raised an exception:\n%s", traceback.format_exc())
            reason = f"{type(error)}:<'{error}'>"  # as Flower's own runtimes write it
            return Message(Error(CLIENT_APP_ERROR, reason), reply_to=message)
        return delivered_copy(reply) if reply.has_content() else reply


def run_in_process(
    server_app: ServerApp,
    client_app: ClientApp,
    num_supernodes: int,
    *,
    run_config: RunConfig | None = None,
    seed: int = 0,
) -> Context:
    """Run a Flower app to its end, like `flwr.simulation.run_simulation` but without Ray.

    Parameters
    ----------
    server_app, client_app : ServerApp, ClientApp
        The two sides, of either API.
    num_supernodes, run_config, seed
        As in `InProcessGrid`.

    Returns
    -------
    Context
        The ServerApp's context, with the state it left behind.

    Examples
    --------
    >>> server_app = ServerApp()
    >>> @server_app.main()
    ... def main(grid, context):
    ...     context.state["nodes"] = MetricRecord({"number": len(list(grid.get_node_ids()))})
    >>> from flwr.app import MetricRecord
    >>> run_in_process(server_app, ClientApp(), num_supernodes=7).state["nodes"]["number"]
    7
    """
    grid = InProcessGrid(client_app, num_supernodes, run_config, seed)
    return run_on_grid(server_app, grid, run_config=run_config)


def run_on_grid(
    server_app: ServerApp, grid: Grid, *, run_config: Mapping[str, Any] | None = None
) -> Context:
    """Run a ServerApp on a given Grid, such as a `FaultyGrid`, and return its Context."""
    context = Context(
        run_id=grid.run.run_id,
        node_id=SERVER_NODE_ID,
        node_config={},
        state=RecordDict(),
        run_config=dict(run_config or {}),
    )
    server_app(grid, context)
    return context
