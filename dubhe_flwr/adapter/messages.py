"""Carries requests and replies as Flower messages; what server and nodes share."""

from collections.abc import Mapping
from typing import Final

from flwr.app import ConfigRecord, Message, RecordDict

from dubhe_flwr.errors import MalformedMessageError
from dubhe_flwr.protocol import Fields, Stage
from dubhe_flwr.protocol.log import logger

log: Final = logger.log
"""Flower's own log, so that the selection shows up between the rounds."""

STAGES: Final = tuple(stage.value for stage in Stage)

_RECORD: Final = "dubhe"


def message_type(stage: str) -> str:
    """Return the type of Flower message that carries a stage, such as ``evaluate.dubhe_join``."""
    return f"evaluate.dubhe_{stage}"


def stage_of(message: Message) -> str:
    """Return the stage of a message, or "train" and the like for an app's own messages."""
    kind = message.metadata.message_type
    prefix = message_type("")
    return kind.removeprefix(prefix) if kind.startswith(prefix) else kind.partition(".")[0]


def to_records(fields: Fields) -> RecordDict:
    """Return the content of a message with these fields."""
    return RecordDict({_RECORD: ConfigRecord({**fields})})


def from_records(content: RecordDict) -> Mapping[str, object]:
    """Return the fields of a message; raises `MalformedMessageError` if it has none."""
    record = content.get(_RECORD)
    if not isinstance(record, ConfigRecord):
        raise MalformedMessageError(f"The message has no record {_RECORD!r}.")
    return dict(record.items())
