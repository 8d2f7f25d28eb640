"""How protocol fields travel in Flower's messages: types of messages, and a record."""

from collections.abc import Mapping
from typing import Final

from flwr.app import ConfigRecord, Message, RecordDict

from dubhe_flwr.adapter._compat import config_record
from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol import Fields, Stage

__all__ = ["STAGES", "from_records", "message_type", "stage_of", "to_records"]

STAGES: Final = tuple(stage.value for stage in Stage)

_RECORD: Final = "dubhe"


def message_type(stage: str) -> str:
    """Return the type of Flower message that carries a stage.

    Examples
    --------
    >>> message_type("join")
    'evaluate.dubhe_join'
    """
    return f"evaluate.dubhe_{stage}"


def stage_of(message: Message) -> str:
    """Return the stage that a message belongs to; "train" and the like for an app's own.

    Examples
    --------
    >>> stage_of(Message(RecordDict(), 2, "evaluate.dubhe_join"))
    'join'
    >>> stage_of(Message(RecordDict(), 2, "train.personal"))
    'train'
    """
    kind = message.metadata.message_type
    prefix = message_type("")
    return kind.removeprefix(prefix) if kind.startswith(prefix) else kind.partition(".")[0]


def to_records(fields: Fields) -> RecordDict:
    """Return the content of a message with these fields."""
    return RecordDict({_RECORD: config_record(fields)})


def from_records(content: RecordDict) -> Mapping[str, object]:
    """Return the fields in the content of a message.

    Raises
    ------
    MalformedMessageError
        If there are none.
    """
    record = content.get(_RECORD)
    if not isinstance(record, ConfigRecord):
        raise MalformedMessageError(f"The message has no record {_RECORD!r}.")
    return dict(record.items())
