"""One node's answers to the stages, in one line for either kind of ClientApp.

Its session is kept in Flower's Context.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, fields
from functools import cache, cached_property, partial
from logging import ERROR, INFO, WARNING
from pathlib import Path
from typing import Any, Final

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from numpy.typing import ArrayLike

from dubhe_flwr.adapter._compat import CLIENT_APP_ERROR, config_record, without_mods
from dubhe_flwr.adapter.arguments import takes, taking
from dubhe_flwr.adapter.transport import (
    STAGES,
    from_records,
    in_simulation,
    log,
    message_type,
    to_records,
)
from dubhe_flwr.clientapp.keys import SigningKey, TrustedKeysOfNode, pinned_keys
from dubhe_flwr.clientapp.ledger_file import Save, StateDir, open_ledger
from dubhe_flwr.errors import (
    DataError,
    MalformedMessageError,
    ProtocolError,
    RefusedError,
    SettingsError,
    UntrustedError,
)
from dubhe_flwr.he.signing import PinnedKeys
from dubhe_flwr.protocol import ClientSession, Fields, Limits, Memory, NodePolicy, Stage
from dubhe_flwr.protocol.node.memory import Ledger
from dubhe_flwr.protocol.node.policy import warn_once, where_raised

LabelCounts = Callable[[Context], ArrayLike]
"""Returns the node's samples of each class, or bin of any histogram: an int array of shape (C,)."""

Willing = Callable[[Context, int], bool]
"""Whether the node trains in that round; asked with round 0, whether it takes part at all."""

_RECORD: Final = "dubhe"
_STAGE_TYPES: Final = frozenset(map(message_type, STAGES))
_DAY: Final = 86_400
_NOT_PINNED: Final = (
    "dubhe: this node has no signing_key and trusted_keys, so the server chooses who opens sums, "
    "and one that substitutes keys can read what the node sends; give real nodes such keys, and in "
    "a simulation set simulated=True here, and simulation in Dubhe"
)
_OPACUS: Final = (
    "dubhe: this app uses Opacus: its epsilon grows in each round in which this node trains, and "
    "nodes train unevenly often; use willing to stop once the budget is spent "
    "(docs/explanation/differential_privacy.md)"
)
_tell_once = cache(partial(log, INFO))


@dataclass(frozen=True, repr=False)
class Node(Limits):
    """Answers requests of the protocol for whichever node a Context belongs to.

    It takes the following arguments, and the fields of `dubhe_flwr.protocol.Limits`.

    Parameters
    ----------
    label_counts : callable (Context) -> array_like of int, shape (C,)
        The node's samples of each class, or of each bin of any other histogram that rounds should
        balance, such as sensitive groups; called anew at each registration.
    willing : callable (Context, int) -> bool, optional (default: always)
        Whether the node trains in that round; asked with round 0, whether it takes part at all.
    simulated : bool or callable (Context) -> bool (default: False)
        Whether this is a node of a simulation, which has nothing to hide: it draws by keys that
        the server gives it, so that a run repeats, and tells its label counts where the server
        encrypts nothing. Never in deployment.
    signing_key : Ed25519PrivateKey or callable (Context) -> Ed25519PrivateKey, optional
        The node's own key for signatures; see `load_signing_key`.
    trusted_keys : iterable of Ed25519PublicKey, or callable (Context) -> such, optional
        The public keys of all nodes, this one included, brought to the node past the server; see
        `load_trusted_keys`. With both, the node takes part only where every other one proves to
        hold a trusted key; with neither, a warning says once what is not protected.
    state_dir : path-like or callable (Context) -> path-like, optional
        A folder of this node alone, on its own host. What the node has spent of the day and how
        many sums its label counts have entered then outlast a run; without it each run begins
        anew. A simulated node keeps nothing there.
    exact_sums : bool (default: False)
        Whether a node with pinned keys also takes part in sums that one node can open or that carry
        no noise: the paper's rule, tries, groups, prices with a target or a noise of their own.

    Raises
    ------
    SettingsError
        If a number cannot work, `label_counts` is no function, one of `signing_key` and
        `trusted_keys` is missing, or they do not fit together. Keys that are found by a callable
        are checked when the first request comes: the sentence is then in the node's log, and the
        request is refused.
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
        _ = self._find_keys  # refuses keys that cannot work

    @cached_property
    def _find_keys(self) -> Callable[[Context], PinnedKeys | None]:
        return pinned_keys(self.signing_key, self.trusted_keys)

    @cached_property
    def _limits(self) -> dict[str, int]:
        return {field.name: getattr(self, field.name) for field in fields(Limits)}

    def handle(self, fields: Mapping[str, object], context: Context) -> Fields:
        """Answer a request, and keep the session in the Context; a refusal is a `ProtocolError`."""
        pinned = self._pinned(context)
        unfit: list[DataError] = []
        policy = self._policy(context, pinned, unfit)
        if fields.get("stage") == Stage.JOIN:
            if pinned is None and not policy.simulated:  # a simulation has no network
                (_tell_once if in_simulation() else warn_once)(_NOT_PINNED)
            if "opacus" in sys.modules:
                warn_once(_OPACUS)
        with self._spent(context, policy) as (ledger, save):
            memory = _kept_memory(context)
            memory = memory if ledger is None else memory.with_ledger(ledger)
            session = ClientSession(policy, memory, today=int(time.time() // _DAY))
            try:
                reply = session.handle(fields)
            finally:  # what was decrypted for a refused request counts too
                if session.memory is not memory:
                    context.state[_RECORD] = config_record(session.memory.to_fields())
                    save(session.memory.ledger)
        if unfit and policy.simulated:  # its owner reads the server's log
            raise RefusedError(f"label_counts: {unfit[0]}")
        return reply

    @contextmanager
    def _spent(self, context: Context, policy: NodePolicy) -> Iterator[tuple[Ledger | None, Save]]:
        """Give what the node has spent in all runs, and what keeps it; a simulation keeps none."""
        if self.state_dir is None or policy.simulated:
            yield None, lambda _ledger: None
            return
        found = self.state_dir
        try:
            folder = Path(found(context) if callable(found) else found).expanduser()
        except Exception as error:  # noqa: BLE001 - the owner's code may raise anything
            log(ERROR, "dubhe: looking for state_dir raised %s.", where_raised(error))
            raise RefusedError("This node cannot use its state_dir; its log says why.") from None
        with open_ledger(folder) as kept:
            yield kept

    def _pinned(self, context: Context) -> PinnedKeys | None:
        """Find the node's keys; one that has none by mistake takes part in nothing."""
        try:
            return self._find_keys(context)
        except SettingsError as error:
            log(ERROR, "dubhe: %s", error)
        except Exception as error:  # noqa: BLE001 - the owner's code may raise anything
            log(ERROR, "dubhe: looking for the node's keys raised %s.", where_raised(error))
        raise RefusedError("This node cannot use its keys; its log says why.")

    def _is_simulated(self, context: Context) -> bool:
        if not callable(self.simulated):
            return self.simulated
        try:
            if isinstance(answer := self.simulated(context), bool):
                return answer
            log(ERROR, "dubhe: simulated returned neither True nor False.")
        except Exception as error:  # noqa: BLE001 - the owner's code may raise anything
            log(ERROR, "dubhe: simulated raised %s.", where_raised(error))
        raise RefusedError("This node cannot tell how it is to draw; its log says why.")

    def _counts(self, context: Context, unfit: list[DataError]) -> ArrayLike:
        """Return the label counts; note an error of `count_labels`, which quotes no label."""
        try:
            return self.label_counts(context)
        except DataError as error:
            log(WARNING, "dubhe: label_counts: %s", error)
            unfit.append(error)
            raise

    def _policy(
        self,
        context: Context,
        pinned: PinnedKeys | None = None,
        unfit: list[DataError] | None = None,
    ) -> NodePolicy:
        return NodePolicy(
            **self._limits,
            label_counts=partial(self._counts, context, [] if unfit is None else unfit),
            alias=str(context.node_config.get("partition-id", context.node_id)),
            willing=self.willing and partial(self.willing, context),
            simulated=self._is_simulated(context),
            pinned=pinned,
            exact_sums=self.exact_sums,
        )


class DubheMod(Node):
    """A Flower mod for a ClientApp made from a `client_fn`; everything else passes through.

    Let it be the first of the app's mods: those before it see Dubhe's messages. It takes the
    arguments of `Node`, first of all `label_counts`, and those of `Limits`.

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
        """Answer what belongs to the protocol and pass on the rest."""
        if message.metadata.message_type in _STAGE_TYPES:
            return _answer(self, message, context)
        return call_next(message, context)


@taking(Node)
def register_dubhe(app: ClientApp, **arguments: Any) -> None:
    """Let a ClientApp of the Message API answer the stages of the protocol.

    A mod sees only messages for which a handler is registered, so an app with `@app.train()`
    needs handlers where one with a `client_fn` needs `DubheMod`. The app's own mods do not see
    Dubhe's messages.

    Parameters
    ----------
    app : ClientApp
        An app without `client_fn`.
    **arguments
        Those of `Node`, first of all `label_counts`; what cannot work is a `SettingsError`.

    Examples
    --------
    >>> app = ClientApp()
    >>> register_dubhe(app, label_counts=lambda context: [120, 3, 40])
    """
    if not isinstance(app, ClientApp):
        raise SettingsError(
            f"{type(app).__name__} is not a ClientApp; give the app, then the rest."
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
            "register_dubhe is for a ClientApp without client_fn, and once; give one with "
            "client_fn mods=[DubheMod(label_counts)]."
        ) from None


def _answer(node: Node, message: Message, context: Context) -> Message:
    """Answer a message of the protocol; a refused one is answered with an error."""
    try:
        reply = node.handle(from_records(message.content), context)
    except ProtocolError as error:
        # Its owner should know whose keys were not trusted, and the server is no messenger.
        log(ERROR if isinstance(error, UntrustedError) else WARNING, "dubhe: refused: %s", error)
        return Message(Error(CLIENT_APP_ERROR, str(error)), reply_to=message)
    return Message(to_records(reply), reply_to=message)


def _kept_memory(context: Context) -> Memory:
    """Return the session that the last request left; a node that cannot read it starts anew."""
    record = context.state.get(_RECORD)
    if record is None:
        return Memory()
    try:
        return Memory.from_fields(dict(record.items()))
    except MalformedMessageError:
        log(WARNING, "dubhe: the session kept by this node is not readable; it registers anew")
        return Memory()
