"""The client side of Dubhe, in one line for either kind of ClientApp."""

from collections.abc import Callable
from typing import Any

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp

from dubhe_flwr.adapter._compat import CLIENT_APP_ERROR
from dubhe_flwr.adapter.arguments import taking
from dubhe_flwr.adapter.records import STAGES, from_records, message_type, to_records
from dubhe_flwr.clientapp.node import Node
from dubhe_flwr.errors import ProtocolError, SettingsError

__all__ = ["DubheMod", "register_dubhe"]

_STAGE_TYPES = frozenset(message_type(stage) for stage in STAGES)


class DubheMod(Node):
    """A Flower mod for a ClientApp made from a `client_fn`; everything else passes through.

    It takes the arguments of `Node`, first of all `label_counts`.

    Examples
    --------
    >>> from flwr.client import NumPyClient
    >>> def client_fn(context):
    ...     return NumPyClient().to_client()
    >>> def label_counts(context):
    ...     return [120, 3, 40]
    >>> app = ClientApp(client_fn=client_fn, mods=[DubheMod(label_counts)])
    """

    def __call__(
        self,
        message: Message,
        context: Context,
        call_next: Callable[[Message, Context], Message],
    ) -> Message:
        """Answer what belongs to the protocol and pass on the rest."""
        if message.metadata.message_type in _STAGE_TYPES:
            return _answer(self, message, context)
        return call_next(message, context)


@taking(Node)
def register_dubhe(app: ClientApp, **arguments: Any) -> None:
    """Let a ClientApp of the Message API answer the stages of the protocol.

    A mod sees only messages for which a handler is registered, so an app with `@app.train()`
    needs handlers where one with a `client_fn` needs `DubheMod`.

    Parameters
    ----------
    app : ClientApp
        An app without `client_fn`.
    **arguments
        The arguments of `Node`, first of all `label_counts`.

    Raises
    ------
    SettingsError
        If it is not a ClientApp, or an argument of `Node` cannot work.

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

    for stage in STAGES:
        app.evaluate(message_type(stage).removeprefix("evaluate."))(handler)


def _answer(node: Node, message: Message, context: Context) -> Message:
    """Answer a message of the protocol; a refused one is answered with an error."""
    try:
        reply = node.handle(from_records(message.content), context)
    except ProtocolError as error:
        return Message(Error(CLIENT_APP_ERROR, str(error)), reply_to=message)
    return Message(to_records(reply), reply_to=message)
