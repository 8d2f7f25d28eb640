"""register_dubhe: one line that adds Dubhe to a ClientApp of the Message API."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from dubhe_flwr.adapter.records import STAGES, message_type
from dubhe_flwr.clientapp.mod import answer
from dubhe_flwr.clientapp.node import LabelCounts, Node
from dubhe_flwr.errors import SettingsError

__all__ = ["register_dubhe"]


def register_dubhe(app: ClientApp, label_counts: LabelCounts, **options: object) -> None:
    """Let a ClientApp answer the stages of the protocol.

    A mod sees only messages for which a handler is registered, so an app with `@app.train()`
    needs handlers where one with a `client_fn` needs `DubheMod`.

    Parameters
    ----------
    app : ClientApp
        An app without `client_fn`.
    label_counts : callable (Context) -> array_like of int, shape (C,)
        The node's samples of each class; called anew at each registration.
    **options
        Further arguments of `Node`.

    Raises
    ------
    SettingsError
        If it is no ClientApp, or an argument of `Node` cannot work.

    Examples
    --------
    >>> app = ClientApp()
    >>> register_dubhe(app, label_counts=lambda context: [120, 3, 40])
    """
    if not isinstance(app, ClientApp):
        raise SettingsError(f"{type(app).__name__} is no ClientApp; give the app, then the rest.")
    node = Node(label_counts, **options)  # type: ignore[arg-type]

    def handler(message: Message, context: Context) -> Message:
        return answer(node, message, context)

    for stage in STAGES:
        app.evaluate(message_type(stage).removeprefix("evaluate."))(handler)
