"""Tracks the progress of a run, and saves what a new process needs to continue it.

A checkpoint holds the round, the model, the selector's seed and number of batches, and the wrapped
strategy's own state. It holds no registration: after a resume, all nodes register again.
"""

from enum import IntEnum
from logging import ERROR, INFO, WARNING
from typing import Any, Final

from dubhe_flwr.adapter.arguments import Options
from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.adapter.messages import log
from dubhe_flwr.adapter.wrapped import kept_state, restore_state
from dubhe_flwr.errors import CheckpointError, SettingsError
from dubhe_flwr.protocol import Plan
from dubhe_flwr.protocol.selector import Selector, check_saved

STATE_VERSION: Final = 1
"""Version of the format of `Run.state_dict` and of checkpoints."""

_STARTS_AGAIN: Final = (
    "dubhe: this strategy starts again, so all nodes register again; to run one round at a time, "
    'write a training loop (see "Adapt an app" in the documentation of dubhe-flwr)'
)


class Phase(IntEnum):
    """How far a run has come; a run without a checkpoint directory may skip phases."""

    NEW = 0
    LOADED = 1  # the checkpoint, if there was one
    BEGUN = 2  # Flower has asked for the first model
    KEPT = 3  # the first model is in the checkpoint
    TRAINING = 4  # the first round has begun


class Run:
    """The run of a selecting strategy: its rounds, the selector's state, and the checkpoint.

    Attributes
    ----------
    state : object
        The selector's state.
    plan : Plan or None
        Who trains in the current round.
    first, rounds_done : int
        The last round that earlier processes completed, since Flower counts from 1 again in each
        process; and the last completed round of the whole run.
    """

    def __init__(self, wrapped: Any, selector: Selector[Any], options: Options) -> None:
        self._wrapped = wrapped
        self._selector = selector
        self._num_rounds: int | None = None
        path = options.checkpoint_dir
        self._directory = CheckpointDirectory(path) if path else None
        self._forget()

    def _forget(self) -> None:
        """Go back to the beginning of a run."""
        self._phase = Phase.NEW
        self.state = self._selector.initial_state()
        self.plan: Plan | None = None
        self.first = self.rounds_done = 0
        self._model: Any = None
        self._end: int | None = None  # the last round, once Flower's loop has told it

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether the run has a checkpoint directory."""
        return self._directory is not None

    @property
    def last(self) -> int | None:
        """The last round of the run, if known."""
        known = self._num_rounds if self._end is None else self._end
        return None if known is None else max(self.first, known)

    def ends_after(self, num_rounds: int | None) -> None:
        """Note how many rounds this process runs, if known; comes after the first round began."""
        if num_rounds is not None:
            self._end = self.first + num_rounds

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a checkpoint needs besides the model."""
        return {
            "version": STATE_VERSION,
            "round": self.rounds_done,
            "selector": self._selector.state_dict(self.state),
            "wrapped": kept_state(self._wrapped),
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Load a state; nothing changes if it is refused."""
        if isinstance(saved, dict) and saved.get("version", STATE_VERSION) != STATE_VERSION:
            raise CheckpointError(
                f"The state has version {saved['version']!r}, not {STATE_VERSION}; load it with "
                "the version of dubhe-flwr that wrote it."
            )
        kinds = {"version": int, "round": int, "selector": dict, "wrapped": list}
        values = check_saved(saved, kinds, "state")
        state = self._selector.load_state_dict(values["selector"])
        restore_state(self._wrapped, values["wrapped"])
        self.state, self.plan = state, None
        self.rounds_done = self.first = values["round"]
        self._phase = min(self._phase, Phase.KEPT)

    def rounds_left(self, num_rounds: int) -> int:
        """Load the checkpoint, and return the number of rounds still to run."""
        self._look()
        self._num_rounds = num_rounds
        left = max(0, num_rounds - (self.rounds_done if self.keeps_checkpoints else self.first))
        if not left and self._directory is not None:
            log(
                INFO,
                "dubhe: all %s rounds of the run in %s are done; ask for more, or set another "
                "checkpoint_dir",
                self.rounds_done,
                self._directory.path,
            )
        return left

    def begin(self, foreign: type | tuple[()] = ()) -> Any:
        """Begin a run; return the checkpoint's model, or None without a checkpoint.

        Discards the state of any earlier run of this object, since its nodes may have changed or
        left. A state that was loaded stays if its first round failed. Raises `CheckpointError` if
        the model is foreign: of the type in Flower's other API.
        """
        if self._phase is Phase.TRAINING and (self.plan is not None or not self.first):
            log(WARNING, _STARTS_AGAIN)
            self._forget()
        self._look()
        if isinstance(self._model, foreign):
            raise CheckpointError(
                f"The checkpoint's model is a {type(self._model).__name__}, so the run began in "
                "Flower's other API; resume it there, or name an empty checkpoint_dir to start "
                "over."
            )
        self._phase = max(self._phase, Phase.BEGUN)
        return self._model

    def begin_round(self, server_round: int) -> int:
        """Return the new round's number within the whole run; `server_round` 1 begins a new run."""
        if server_round <= 1 and self._phase is Phase.TRAINING:
            self.begin()
        if self._directory and self._phase < Phase.KEPT:
            raise SettingsError(
                "checkpoint_dir works only if Dubhe is the outermost strategy: write "
                "Dubhe(DifferentialPrivacy...(FedAvg())). If you override start, "
                "initialize_parameters or evaluate, call super(). If the wrapped strategy "
                "overrides start, have it call evaluate_fn before the first round and after each "
                "round. In a training loop of your own, save state_dict() instead."
            )
        if self._directory and self._phase is Phase.KEPT and self.first and self.last is None:
            log(
                WARNING,
                "dubhe: the app's rounds come on top of the %s already done in %s; use "
                "num_rounds=strategy.rounds_left(N), where N counts the rounds of the whole run",
                self.first,
                self._directory.path,
            )
        self._phase = Phase.TRAINING
        return self.first + server_round

    def complete(self, server_round: int, model: Any) -> None:
        """Save the round; if the disk fills up later, the run continues without its checkpoint."""
        self.rounds_done = server_round
        # Saving before the run began would overwrite its checkpoint.
        if self._directory is None or self._phase < Phase.BEGUN:
            return
        try:
            self._directory.save({"state": self.state_dict(), "model": model})
        except OSError as error:
            why = (
                f"{self._directory.path} cannot be written to ({error.strerror}); make room there, "
                "or let the server write to it"
            )
            if self._phase is Phase.BEGUN:  # before this process's first round
                raise CheckpointError(f"{why}.") from None
            without = "dubhe: the run continues WITHOUT a checkpoint of round %s: %s"
            log(ERROR, without, server_round, why)
        self._phase = max(self._phase, Phase.KEPT)

    def _look(self) -> None:
        """Load the checkpoint, once."""
        if self._phase > Phase.NEW or self._directory is None:
            return
        if (saved := self._directory.open()) is not None:
            path = self._directory.file
            values = check_saved(saved, {"state": object, "model": object}, str(path))
            self.load_state_dict(values["state"])
            self._model = values["model"]
            log(
                INFO,
                "dubhe: resuming after round %s of %s; Flower's log counts rounds from 1",
                self.rounds_done,
                path,
            )
        # Set last, so that a refused checkpoint stays refused and is not overwritten.
        self._phase = Phase.LOADED
