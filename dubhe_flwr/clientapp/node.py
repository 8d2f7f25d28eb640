"""Lets a ClientApp answer Dubhe's messages: `DubheMod` with a client_fn, else `register_dubhe`.

Both wrap a `Node`, which holds the owner's arguments. For each request it restores the node's
session from Flower's Context and its ledger from `state_dir`, has the protocol's `ClientSession`
answer, and saves both. A refusal is answered with an error; the node's log says more.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property, partial
from logging import ERROR
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar

from flwr.app import ConfigRecord, Context, Error, Message
from flwr.clientapp import ClientApp
from numpy.typing import ArrayLike

from dubhe_flwr.adapter._compat import CLIENT_APP_ERROR, DAILY_LIMIT, without_mods
from dubhe_flwr.adapter.messages import STAGES, from_records, log, message_type, to_records
from dubhe_flwr.adapter.signatures import takes, taking
from dubhe_flwr.clientapp.keys import SigningKey, TrustedKeysOfNode, pinned_keys
from dubhe_flwr.clientapp.ledger_file import Save, StateDir, open_ledger
from dubhe_flwr.errors import (
    DailyLimitError,
    MalformedMessageError,
    ProtocolError,
    RefusedError,
    SettingsError,
    UntrustedError,
)
from dubhe_flwr.he.signing import PinnedKeys
from dubhe_flwr.protocol import Fields, Stage
from dubhe_flwr.protocol.log import warn_once
from dubhe_flwr.protocol.node.memory import Ledger, Memory
from dubhe_flwr.protocol.node.policy import Limits, NodePolicy, where_raised
from dubhe_flwr.protocol.node.session import ClientSession

ValueT = TypeVar("ValueT")

LabelCounts = Callable[[Context], ArrayLike]
"""Returns the node's samples per class, or per bin of any histogram: an int array, shape (C,)."""

Willing = Callable[[Context, int], bool]
"""Returns whether the node trains in a round; for round 0, whether it takes part at all."""

_RECORD: Final = "dubhe"
_STAGE_TYPES: Final = frozenset(map(message_type, STAGES))
_DAY: Final = 86_400
_NOT_PINNED: Final = (
    "dubhe: this node has no signing_key or trusted_keys, so the server chooses who opens sums, "
    "and if it substitutes keys, it can read what the node sends; give the node both, or "
    "simulated=True if it belongs to a simulation"
)


@dataclass(frozen=True, repr=False)
class Node(Limits):
    """Answers requests of the protocol for the node that a Context belongs to.

    Takes the following arguments and the fields of `dubhe_flwr.protocol.node.policy.Limits`.

    Parameters
    ----------
    label_counts : callable (Context) -> array_like of int, shape (C,)
        Returns how many samples the node has of each class, or in each bin of any other histogram
        that rounds should balance, such as sensitive groups. Called at each registration. With
        noisy sums, a node uses new counts only once a tenth of its samples have another class, so
        that it does not reveal more with each new sample.
    willing : callable (Context, int) -> bool, optional (default: always)
        Returns whether the node trains in a round; for round 0, whether it takes part at all.
        Called when the node draws, which may be many rounds earlier.
    simulated : bool or callable (Context) -> bool (default: False)
        Whether the node belongs to a simulation and has nothing to hide. It then draws with the
        server's seed, so that runs can be repeated, and reveals its label counts if the server
        simulates without encryption. Never set it in a deployment.
    signing_key : Ed25519PrivateKey or callable (Context) -> Ed25519PrivateKey, optional
        The node's own key for signatures; see `load_signing_key`.
    trusted_keys : iterable of Ed25519PublicKey, or callable (Context) -> iterable, optional
        The public keys of all nodes, including this node's own. They must reach the node out of
        band, not through the server; see `load_trusted_keys`. If `signing_key` and `trusted_keys`
        are both set, the node takes part only if the members of the committee, or the agent, prove
        that they hold trusted keys; they check all other nodes against their own lists. If neither
        is set, the node warns once about what is not protected.
    state_dir : path-like or callable (Context) -> path-like, optional
        The absolute path of a folder on the node's own host. There the node records, across runs,
        how much of its daily limits it has used, its label counts, how many sums they have entered,
        and how often it volunteers; without it, each run starts from zero. The node also records
        which requests it has answered, in case its session is lost before Flower stores it. Nodes
        may share a folder if they have pinned keys or a ``partition-id`` each. A simulated node
        keeps nothing there.
    exact_sums : bool (default: False)
        Whether a node with pinned keys also takes part in sums that a single node can open, or that
        do not hide each client with noise. Such sums occur with the paper's rule, with tries, and
        with prices if the target lists shares or the noise is not the default.

    Raises
    ------
    SettingsError
        If a number is invalid, `label_counts` is not a function, only one of `signing_key` and
        `trusted_keys` is given, or the keys do not belong together. Keys that a callable finds are
        checked at the first request: the node then logs the error and refuses the request.
    """

    label_counts: LabelCounts
    _: KW_ONLY
    willing: Willing | None = None
    simulated: bool | Callable[[Context], bool] = False
    signing_key: SigningKey | None = None
    trusted_keys: TrustedKeysOfNode | None = None
    state_dir: StateDir | None = None
    exact_sums: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not takes(self.label_counts, None):
            raise SettingsError(
                "label_counts must be a function of the Context that returns the node's samples "
                "of each class, such as `lambda context: [120, 3, 40]`."
            )
        if self.willing is not None and not takes(self.willing, None, 0):
            raise SettingsError(
                "willing must be a function of the Context and a round that returns whether the "
                "node trains then, such as `lambda context, server_round: True`; leave it out if "
                "the node always does."
            )
        if not (isinstance(self.simulated, bool) or callable(self.simulated)):
            raise SettingsError(
                f"simulated={self.simulated!r} must be True, False or a function of the Context."
            )
        if not isinstance(self.exact_sums, bool):
            raise SettingsError(f"exact_sums={self.exact_sums!r} must be True or False.")
        if self.state_dir is not None and not callable(self.state_dir):
            _absolute(self.state_dir)
        _ = self._find_keys  # raises for invalid keys

    @cached_property
    def _find_keys(self) -> Callable[[Context], PinnedKeys | None]:
        return pinned_keys(self.signing_key, self.trusted_keys)

    def handle(self, fields: Mapping[str, object], context: Context) -> Fields:
        """Answer a request and keep the session in the Context.

        Raises `ProtocolError` if the node refuses the request.
        """
        pinned = _from_owner("signing_key or trusted_keys", partial(self._find_keys, context))
        policy = self._policy(context, pinned)
        if fields.get("stage") == Stage.JOIN and pinned is None and not policy.simulated:
            warn_once(_NOT_PINNED)
        with self._spent(context, policy) as (ledger, save):
            memory = _kept_memory(context)
            memory = memory if ledger is None else memory.with_ledger(ledger)
            session = ClientSession(policy, memory, today=int(time.time() // _DAY))
            try:
                return session.handle(fields)
            finally:  # decryptions count even if the request is refused
                if session.memory is not memory:
                    context.state[_RECORD] = ConfigRecord({**session.memory.to_fields()})
                    save(session.memory.ledger_after(ledger or Ledger()))

    @contextmanager
    def _spent(self, context: Context, policy: NodePolicy) -> Iterator[tuple[Ledger | None, Save]]:
        """Yield the node's ledger across runs, if one is kept, and a function to save it."""
        if self.state_dir is None or policy.simulated:
            yield None, lambda _ledger: None
            return
        found = self.state_dir
        folder = _from_owner(
            "state_dir", lambda: _absolute(found(context) if callable(found) else found)
        )
        # The node id is no help: it changes when the SuperNode restarts.
        identity = str(context.node_config.get("partition-id", ""))
        if policy.pinned is not None:
            identity = policy.pinned.signer.hex()
        with open_ledger(folder, identity) as kept:
            yield kept

    def _is_simulated(self, context: Context) -> bool:
        simulated = self.simulated
        if not callable(simulated):
            return simulated

        def find() -> bool:
            answer: object = simulated(context)
            if not isinstance(answer, bool):
                raise SettingsError("simulated returned neither True nor False.")
            return answer

        return _from_owner("simulated", find)

    def _policy(self, context: Context, pinned: PinnedKeys | None) -> NodePolicy:
        return NodePolicy(
            **{field.name: getattr(self, field.name) for field in fields(Limits)},
            label_counts=partial(self.label_counts, context),
            alias=str(context.node_config.get("partition-id", context.node_id)),
            willing=self.willing and partial(self.willing, context),
            simulated=self._is_simulated(context),
            pinned=pinned,
            exact_sums=self.exact_sums,
        )


class DubheMod(Node):
    """A Flower mod that answers Dubhe's messages, for a ClientApp with a `client_fn`.

    All other messages pass through. Make it the first of the app's mods, since mods before it see
    Dubhe's messages. It takes the arguments of `Node`, above all `label_counts`, and the fields of
    `Limits`.

    Examples
    --------
    >>> from flwr.client import NumPyClient
    >>> def client_fn(context):
    ...     return NumPyClient().to_client()
    >>> def label_counts(context):
    ...     return [120, 3, 40]
    >>> app = ClientApp(client_fn=client_fn, mods=[DubheMod(label_counts)])
    """

    @taking(Node)
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)

    def __call__(
        self, message: Message, context: Context, call_next: Callable[[Message, Context], Message]
    ) -> Message:
        """Answer Dubhe's messages and pass on all others."""
        if message.metadata.message_type in _STAGE_TYPES:
            return _answer(self, message, context)
        return call_next(message, context)


@taking(Node)
def register_dubhe(app: ClientApp, **arguments: Any) -> None:
    """Register handlers for Dubhe's messages on a ClientApp of the Message API.

    A mod sees only messages for which a handler is registered. An app with `@app.train()` therefore
    needs handlers where an app with a `client_fn` needs `DubheMod`. The app's own mods do not see
    Dubhe's messages.

    Parameters
    ----------
    app : ClientApp
        An app without `client_fn`.
    **arguments
        The arguments of `Node`, above all `label_counts`.

    Raises
    ------
    SettingsError
        If an argument is invalid, or the app already has a `client_fn` or these handlers.

    Examples
    --------
    >>> app = ClientApp()
    >>> register_dubhe(app, label_counts=lambda context: [120, 3, 40])
    """
    if not isinstance(app, ClientApp):
        raise SettingsError(
            f"{type(app).__name__} is not a ClientApp; pass the app as the first argument."
        )
    node = Node(**arguments)

    def handler(message: Message, context: Context) -> Message:
        return _answer(node, message, context)

    try:
        with without_mods(app):
            for stage in STAGES:
                app.evaluate(message_type(stage).removeprefix("evaluate."))(handler)
    except ValueError:
        raise SettingsError(
            "Call register_dubhe once, on a ClientApp without client_fn; if the app has a "
            "client_fn, pass mods=[DubheMod(label_counts)] to ClientApp instead."
        ) from None


def _answer(node: Node, message: Message, context: Context) -> Message:
    """Answer one of Dubhe's messages, with an error if the node refuses it."""
    try:
        reply = node.handle(from_records(message.content), context)
    except ProtocolError as error:
        # The node's own log tells its owner whose keys were not trusted.
        write = partial(log, ERROR) if isinstance(error, UntrustedError) else warn_once
        write("dubhe: refused: %s", str(error))
        code = DAILY_LIMIT if isinstance(error, DailyLimitError) else CLIENT_APP_ERROR
        return Message(Error(code, str(error)), reply_to=message)
    return Message(to_records(reply), reply_to=message)


def _absolute(path: object) -> Path:
    """Return the path of `state_dir`; raises `SettingsError` if it is relative, or no path."""
    folder = Path(path).expanduser() if isinstance(path, str | PathLike) else Path()
    if not folder.is_absolute():
        raise SettingsError(
            f"state_dir={str(path)!r} must be an absolute path: each run may start in another "
            "folder, and the node would lose count."
        )
    return folder


def _from_owner(argument: str, find: Callable[[], ValueT]) -> ValueT:
    """Return what the owner's code finds; logs why it fails, and raises `RefusedError`."""
    try:
        return find()
    except SettingsError as error:
        log(ERROR, "dubhe: %s", error)
    except Exception as error:  # noqa: BLE001 - the owner's code may raise anything
        log(ERROR, "dubhe: %s raised %s.", argument, where_raised(error))
    raise RefusedError(f"This node cannot use its argument {argument}; its log says why.")


def _kept_memory(context: Context) -> Memory:
    """Return the session left by the last request, or a new one if that is unreadable."""
    record = context.state.get(_RECORD)
    if record is None:
        return Memory()
    try:
        return Memory.from_fields(dict(record.items()))
    except MalformedMessageError:
        warn_once("dubhe: this node cannot read its saved session; it registers again")
        return Memory()
