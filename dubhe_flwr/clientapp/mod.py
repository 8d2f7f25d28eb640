"""DubheMod: one line that adds Dubhe to a ClientApp made from a `client_fn`."""

from collections.abc import Callable

from flwr.app import Context, Error, Message

from dubhe_flwr.adapter._compat import CLIENT_APP_ERROR, evaluate_reply
from dubhe_flwr.adapter.records import (
    STAGES,
    from_config,
    from_records,
    message_type,
    to_config,
    to_records,
)
from dubhe_flwr.clientapp.node import Node
from dubhe_flwr.errors import ProtocolError

__all__ = ["DubheMod", "answer"]

_STAGE_TYPES = frozenset(message_type(stage) for stage in STAGES)


def answer(node: Node, message: Message, context: Context) -> Message:
    """Answer a custom message of the protocol; a refused one is answered with an error."""
    try:
        reply = node.handle(from_records(message.content), context)
    except ProtocolError as error:
        return Message(Error(CLIENT_APP_ERROR, str(error)), reply_to=message)
    return Message(to_records(reply), reply_to=message)


class DubheMod(Node):
    """The client side of Dubhe as a Flower mod; everything else passes through untouched.

    It takes the arguments of `Node`, first of all `label_counts`.

    Examples
    --------
    >>> from flwr.client import NumPyClient
    >>> from flwr.clientapp import ClientApp
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
            return answer(self, message, context)
        config = dict(message.content.config_records.get("evaluateins.config") or {})
        if (fields := from_config(config)) is not None:
            try:
                reply = self.handle(fields, context)
            except ProtocolError as error:
                return Message(Error(CLIENT_APP_ERROR, str(error)), reply_to=message)
            return Message(evaluate_reply(to_config(reply)), reply_to=message)
        return call_next(message, context)
