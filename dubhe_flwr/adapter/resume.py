"""Tracks the progress of a run, and keeps what a new process needs to continue it.

A checkpoint holds the round, the model, the selector's seed and count of batches, and what the
wrapped strategy keeps. It holds no registration: after a resume, all nodes register anew.
"""

from logging import ERROR, INFO, WARNING
from typing import Any, Final

from dubhe_flwr.adapter.arguments import Options
from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.adapter.transport import log
from dubhe_flwr.adapter.wrapped import kept_state, restore_state
from dubhe_flwr.errors import CheckpointError, SettingsError
from dubhe_flwr.protocol import Plan, Selector
from dubhe_flwr.protocol.saved import check_saved

STATE_VERSION: Final = 1
"""Version of what `Run.state_dict` returns and of a checkpoint."""


class Run:
    """The run of a selecting strategy: its rounds, the selector's state, and the checkpoint.

    Attributes
    ----------
    state : object
        The selector's state.
    plan : Plan or None
        Who trains in the current round.
    keeps_checkpoints : bool
        Whether the run has a checkpoint directory.
    first, rounds_done : int
        The last round of earlier processes, since Flower counts from 1 again in each, and the last
        completed round.
    last : int or None
        The last round of the run, known once `rounds_left` was called.
    """

    def __init__(self, wrapped: Any, selector: Selector[Any], options: Options) -> None:
        self._must_keep = options.on_checkpoint_failure == "raise"
        self._wrapped = wrapped
        self._selector = selector
        self._left_was_asked = False
        path = options.checkpoint_dir
        self._directory = CheckpointDirectory(path) if path else None
        self.keeps_checkpoints = self._directory is not None
        self._forget()

    def _forget(self) -> None:
        """Go back to the beginning of a run."""
        self.state = self._selector.initial_state()
        self.plan: Plan | None = None
        self.first = self.rounds_done = 0
        self.last: int | None = None
        self._used = self._looked = self._began = self._keeps = False
        self._model: Any = None

    def state_dict(self) -> dict[str, Any]:
        """Return what must survive, apart from the model."""
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
        self.state = state
        self.rounds_done = self.first = values["round"]
        self._used = False

    def rounds_left(self, num_rounds: int) -> int:
        """Load the checkpoint, and return how many of the run's rounds are still to come."""
        self._look()
        self._left_was_asked = True
        left = max(0, num_rounds - (self.rounds_done if self.keeps_checkpoints else self.first))
        self.last = self.first + left
        if not left and self._directory is not None:
            log(
                INFO,
                "dubhe: all %s rounds of the run in %s are done; ask for more, or give another "
                "checkpoint_dir",
                self.rounds_done,
                self._directory.path,
            )
        return left

    def begin(self) -> Any:
        """Begin a run; return the checkpoint's model, or None without a checkpoint.

        Discards the state of any earlier run of this object, since its nodes may have changed or
        left.
        """
        if self._used:
            self._forget()
        self._look()
        self._began = True
        return self._model

    def begin_round(self, server_round: int) -> int:
        """Return the number of the run's round that begins; Flower's round 1 begins a run."""
        if server_round <= 1 and self._used:
            self.begin()
        if server_round <= 1 and self._directory and not self._keeps:
            raise SettingsError(
                "checkpoint_dir keeps a run only if Dubhe is the outermost strategy: write "
                "Dubhe(DifferentialPrivacy...(FedAvg())); call super() in a start, "
                "initialize_parameters or evaluate of your own; and call evaluate_fn, before the "
                "first round and after each, in a start of the wrapped strategy."
            )
        if server_round <= 1 and self._directory and self.first and not self._left_was_asked:
            log(
                WARNING,
                "dubhe: the rounds of ServerConfig come on top of the %s already done in %s; use "
                "num_rounds=strategy.rounds_left(N), where N counts the rounds of the whole run",
                self.first,
                self._directory.path,
            )
        self._used = True
        return self.first + server_round

    def complete(self, server_round: int, model: Any) -> None:
        """Save the round, and end the run on a full disk only if the options say so."""
        self.rounds_done = server_round
        self._keeps = self._began  # saving before the run began would overwrite its checkpoint
        if self._directory is None or not self._keeps:
            return
        try:
            self._directory.save({"state": self.state_dict(), "model": model})
        except OSError as error:
            why = f"{self._directory.path} cannot be written to ({error.strerror}); make room there"
            if self._must_keep:
                raise CheckpointError(
                    f"{why}, or let runs go on with on_checkpoint_failure='continue'."
                ) from error
            without = "dubhe: the run goes on WITHOUT a checkpoint of round %s: %s"
            log(ERROR, without, server_round, why)

    def _look(self) -> None:
        """Load the checkpoint, once."""
        if self._looked or self._directory is None:
            return
        if (saved := self._directory.open()) is not None:
            path = self._directory.file
            values = check_saved(saved, {"state": object, "model": object}, str(path))
            self.load_state_dict(values["state"])
            self._model = values["model"]
            log(
                INFO,
                "dubhe: going on after round %s of %s; Flower's log counts rounds from 1",
                self.rounds_done,
                path,
            )
        self._looked = True  # only now: a refused checkpoint stays refused and is not overwritten
