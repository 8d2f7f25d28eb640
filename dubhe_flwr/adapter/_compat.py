"""Collects all uses of Flower internals, which may change between versions; each has a fallback.

All other modules import only names that Flower documents.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from traceback import walk_stack
from typing import Any, Final, Protocol, runtime_checkable

from flwr.app import Array, Message
from flwr.clientapp import ClientApp
from flwr.server import ServerConfig
from flwr.serverapp import Grid

SERVER_NODE_ID: Final = 1  # also the source of errors that the framework creates
# Flower's error codes.
CLIENT_APP_ERROR: Final = 2  # the ClientApp raised an exception
DAILY_LIMIT: Final = 6  # a mod's precondition failed; for Dubhe, the owner's daily limit
NODE_UNAVAILABLE: Final = 5  # the node is gone
NO_ANSWER: Final = frozenset({3, 4, NODE_UNAVAILABLE})  # no reply came from the node


@runtime_checkable
class GridClient(Protocol):
    """A client of a ClientManager that is reached over a Grid, as in a ServerApp."""

    node_id: int
    grid: Grid


@dataclass(frozen=True)
class Run:
    """The part of a run that Flower's strategies and workflows use."""

    run_id: int


def new_run(run_id: int) -> Run:
    """Return a run to which all messages created in this process belong.

    Versions of Flower without `TaskIdentity` find the run of a message in another way.
    """
    with suppress(ImportError, AttributeError):
        identity: Any = import_module("flwr.supercore.task_identity").TaskIdentity
        identity.task_id, identity.run_id, identity.node_id = 1, run_id, SERVER_NODE_ID
    return Run(run_id)


def set_message_id(message: Message, message_id: str) -> None:
    """Set the id of a message, which Flower leaves to the transport."""
    message.metadata.__dict__["_message_id"] = message_id


def delivered_copy(message: Message) -> Message:
    """Return a copy of a message with its own records, as if it had come over the network."""
    delivered, content = copy(message), message.content.copy()
    for name, record in message.content.items():
        own: Any = record.copy()
        own.update({k: copy(value) for k, value in own.items() if isinstance(value, list | Array)})
        content[name] = own
    delivered.content = content
    return delivered


@contextmanager
def without_mods(app: ClientApp) -> Iterator[None]:
    """Register handlers that the app-level mods do not wrap.

    Flower wraps `app._mods` around each handler when it is registered. In a version that does this
    differently, app-level mods see Dubhe's messages.
    """
    own = vars(app).get("_mods", [])
    vars(app)["_mods"] = []
    try:
        yield
    finally:
        vars(app)["_mods"] = own


def num_rounds_of_callers() -> int | None:
    """Return how many rounds the loop for `server_fn` runs that calls us; None if it is unknown.

    Flower tells strategies of that API only the round, so its configuration is looked up.
    """
    for frame, _ in walk_stack(None):
        found = frame.f_locals
        for config in (found.get("config"), getattr(found.get("context"), "config", None)):
            if isinstance(config, ServerConfig):
                return config.num_rounds
    return None


def batch_size(grid: Grid, num_messages: int) -> int:
    """Return how many messages to send at once.

    The Ray simulation engine searches all waiting messages for every node, so smaller batches are
    faster there. Everywhere else the size makes no difference.
    """
    return 150 if is_simulation_engine(grid) else max(1, num_messages)


def is_simulation_engine(grid: Grid) -> bool:
    """Return whether a Grid is the simulation engine's own Grid, or forwards to it."""
    return type(getattr(grid, "other", grid)).__name__ == "InMemoryGrid"
