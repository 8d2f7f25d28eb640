"""Where a run is, and what must survive for it to go on after its process ended."""

from collections.abc import Callable
from logging import ERROR, INFO, WARNING
from typing import Any, Final

from dubhe_flwr.adapter.arguments import Options
from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.adapter.packing import generator_states, pack, restore_generators, unpack
from dubhe_flwr.adapter.transport import log
from dubhe_flwr.adapter.wrapped import kept_state, restore_state
from dubhe_flwr.errors import CheckpointError, SettingsError
from dubhe_flwr.protocol import Plan, Selector
from dubhe_flwr.protocol.saved import check_keys

STATE_VERSION: Final = 4
"""Version of what `Run.state_dict` returns and of a checkpoint."""


class Run:
    """The run of a strategy that selects: its rounds, the selector's state, and their checkpoint.

    Attributes
    ----------
    state : object
        The selector's.
    plan : Plan or None
        Who trains in the current round.
    first, rounds_done : int
        The last round of earlier processes, as Flower counts from 1 again in each, and the last
        one that was completed.
    """

    def __init__(self, wrapped: Any, selector: Selector[Any], options: Options) -> None:
        self._must_keep = options.on_checkpoint_failure == "raise"
        self._wrapped = wrapped
        self._selector = selector
        self._left_was_asked = False
        path = options.checkpoint_dir
        self._directory = CheckpointDirectory(path) if path else None
        self._forget()

    def _forget(self) -> None:
        """Stand at the beginning of a run."""
        self.state = self._selector.initial_state()
        self.plan: Plan | None = None
        self.first = self.rounds_done = 0
        self._used = self._looked = False
        self._keeps: bool | None = None  # a model; None until the run began with the one kept
        self._model: Any = None
        self._generators: Any = None

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether there is a directory for them."""
        return self._directory is not None

    def state_dict(self) -> dict[str, Any]:
        """Return what must survive, apart from the model."""
        return {
            "version": STATE_VERSION,
            "round": self.rounds_done,
            "selector": self._selector.state_dict(self.state),
            "wrapped": pack(kept_state(self._wrapped)),
        }

    def load_state_dict(self, saved: dict[str, Any], *, interrupted: bool) -> None:
        """Take up a state; nothing changes if it is refused."""
        version = saved.get("version", STATE_VERSION) if isinstance(saved, dict) else STATE_VERSION
        if version != STATE_VERSION:
            raise CheckpointError(
                f"The state has version {version!r}, not {STATE_VERSION}; load it with the version "
                "of dubhe-flwr that wrote it."
            )
        values = check_keys(saved, ["version", "round", "selector", "wrapped"], "state")
        if type(values["round"]) is not int or values["round"] < 0:
            raise CheckpointError(f"state.round: {values['round']!r} is not a round.")
        state = self._selector.load_state_dict(values["selector"], interrupted=interrupted)
        restore_state(self._wrapped, unpack(values["wrapped"]))
        self.state = state
        self.rounds_done = self.first = values["round"]
        self._used = False

    def rounds_left(self, num_rounds: int) -> int:
        """Return how many of a run's rounds are still to come, after taking up its checkpoint."""
        self._look()
        self._left_was_asked = True
        left = max(0, num_rounds - (self.rounds_done if self.keeps_checkpoints else self.first))
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
        """Begin a run; return the checkpoint's model, None without one.

        Where this object has selected before, nothing of that is used: epoch and draws are of the
        nodes of the run before, which may be others or gone.
        """
        if self._used:
            self._forget()
        self._look()
        if self._generators is not None:
            restore_generators(self._generators)
            self._generators = None
        self._keeps = False
        return self._model

    def begin_round(self, server_round: int) -> int:
        """Return which round of the run begins; Flower's first one begins a run."""
        if server_round <= 1 and self._used:
            self.begin()
        if server_round <= 1 and self._directory and not self._keeps:
            raise SettingsError(
                "checkpoint_dir keeps a run only if Dubhe is the outermost strategy: write "
                "Dubhe(DifferentialPrivacy...(FedAvg())), and call super() in a start, "
                "initialize_parameters or evaluate of your own."
            )
        if server_round <= 1 and self._directory and self.first and not self._left_was_asked:
            log(
                WARNING,
                "dubhe: all rounds of ServerConfig come on top of the %s that are done in %s; give "
                "it num_rounds=strategy.rounds_left(...) of those of the whole run",
                self.first,
                self._directory.path,
            )
        self._used = True
        return self.first + server_round

    def complete(self, server_round: int, model: Any) -> None:
        """Keep what a round of the run ended with."""
        self.rounds_done = server_round
        self._keeps = self._keeps if self._keeps is None else True
        if self._directory is not None:
            content = {
                "state": self.state_dict(),
                "model": pack(model),
                "generators": generator_states(),
            }
            self._write(lambda directory: directory.save(server_round, content))

    def before_sending(self) -> None:
        """Note that nodes are about to be asked for what the checkpoint does not know of."""
        self._write(CheckpointDirectory.mark_left)

    def _write(self, write: Callable[[CheckpointDirectory], None]) -> None:
        """Write to the directory; a disk that is full ends the run only if that is wanted."""
        if self._directory is None:
            return
        try:
            write(self._directory)
        except OSError as error:
            why = f"{self._directory.path} cannot be written to ({error.strerror}); make room there"
            if self._must_keep:
                raise CheckpointError(
                    f"{why}, or let runs go on with on_checkpoint_failure='continue'."
                ) from error
            log(
                ERROR,
                "dubhe: the run goes on WITHOUT a checkpoint of round %s: %s",
                self.rounds_done,
                why,
            )

    def _look(self) -> None:
        """Take up the latest checkpoint, once."""
        if self._looked or self._directory is None:
            return
        if (checkpoint := self._directory.open()) is not None:
            wanted = ["state", "model", "generators"]
            values = check_keys(checkpoint.content, wanted, str(checkpoint.path))
            model = unpack(values["model"])
            self.load_state_dict(values["state"], interrupted=checkpoint.left)
            self._model, self._generators = model, values["generators"]
            log(
                INFO,
                "dubhe: going on after round %s of %s, %s; Flower's log counts rounds from 1",
                self.rounds_done,
                checkpoint.path,
                "in the same epoch" if getattr(self.state, "epoch", None) else "in a new epoch",
            )
        self._looked = True  # not before: what was refused is refused again, and never overwritten
