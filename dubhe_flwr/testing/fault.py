"""What may go wrong between server and nodes, in a few words."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from dubhe_flwr.adapter.records import STAGES
from dubhe_flwr.errors import SettingsError

__all__ = ["Fault", "FaultKind"]

FaultKind = Literal[
    "drop_request",
    "drop_reply",
    "error",
    "kill",
    "delay",
    "duplicate",
    "reorder",
    "corrupt_request",
    "corrupt_reply",
    "replay_request",
    "replay_reply",
]

_KNOWN: Final = (*STAGES, "train", "evaluate", "query")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    Parameters
    ----------
    kind : str
        What happens to a message that is hit:

        - "drop_request", "drop_reply": it is lost on the way there, or back;
        - "error": the node does not see it, and an error comes back;
        - "kill": the node leaves for good, without an answer;
        - "delay": the reply comes in a later exchange;
        - "duplicate": the node gets it twice, and so does the server its reply;
        - "reorder": it changes places with others of its batch, there and back;
        - "corrupt_request", "corrupt_reply": one value of its records is changed;
        - "replay_request": the first request of this stage is delivered again before it;
        - "replay_reply": the first reply of this stage comes in place of its own.
    stages : str or iterable of str (default: all)
        Stages of the protocol, such as "join" or "determine"; "train", "evaluate" and "query"
        stand for the app's own messages.
    share : float (default: 1.0)
        Share of the messages that are hit.
    times : int, optional (default: no limit)
        How often it happens at most.
    same_nodes : bool (default: False)
        Hit that share of the nodes, always the same ones, instead of a share of the messages.

    Raises
    ------
    SettingsError
        If there is no such fault or stage, or the share cannot be.

    Examples
    --------
    >>> Fault("kill", stages="keygen", times=1).stages
    ('keygen',)
    """

    kind: FaultKind
    stages: str | Iterable[str] = _KNOWN
    share: float = 1.0
    times: int | None = None
    same_nodes: bool = False

    def __post_init__(self) -> None:
        kinds = get_args(FaultKind)
        if self.kind not in kinds:
            raise SettingsError(f"kind={self.kind!r} is not a fault; there are {', '.join(kinds)}.")
        stages = (self.stages,) if isinstance(self.stages, str) else tuple(self.stages)
        object.__setattr__(self, "stages", stages)
        if unknown := [stage for stage in stages if stage not in _KNOWN]:
            raise SettingsError(f"stages={unknown} do not exist; there are {', '.join(_KNOWN)}.")
        if not 0.0 <= self.share <= 1.0:
            raise SettingsError(f"share={self.share} must be from 0 to 1.")
