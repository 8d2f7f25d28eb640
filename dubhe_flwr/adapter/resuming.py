"""What a strategy needs to go on after its process ended: its state, and a checkpoint of it."""

from logging import INFO
from pathlib import Path
from typing import Any, Final

from dubhe_flwr.adapter.checkpoint import CheckpointDirectory
from dubhe_flwr.adapter.exchange import log
from dubhe_flwr.adapter.generators import generator_states, restore_generators
from dubhe_flwr.adapter.packing import pack, unpack
from dubhe_flwr.adapter.wrapped import kept_state, restore_state
from dubhe_flwr.errors import CheckpointError
from dubhe_flwr.protocol import Plan, Selector, check_keys

__all__ = ["STATE_VERSION", "Resuming"]

STATE_VERSION: Final = 2
"""Version of what `Resuming.state_dict` returns and of a checkpoint."""


class Resuming:
    """Base of `Selecting`: its state as a dictionary, and a directory that keeps it.

    Parameters
    ----------
    strategy : Strategy
        The strategy that trains and aggregates.
    selector : Selector
        How to choose.
    checkpoint_dir : str or Path, optional (default: none)
        Where to keep model, round and state after each round, and to find them again.

    Attributes
    ----------
    plan : Plan or None
        Who trains in the current round.
    rounds_done : int
        The last round that was completed.
    """

    def __init__(
        self, strategy: Any, selector: Selector[Any], checkpoint_dir: str | Path | None
    ) -> None:
        super().__init__()
        self.strategy = strategy
        self.selector = selector
        self._checkpoints = CheckpointDirectory(checkpoint_dir) if checkpoint_dir else None
        self._forget()

    def _forget(self) -> None:
        """Stand at the beginning of a run."""
        self.state = self.selector.initial_state()
        self.plan: Plan | None = None
        self.rounds_done = 0
        self._first = 0  # Flower counts rounds anew in each process
        self._used = False
        self._resumed = False
        self._resumed_model: Any = None
        self._generators: dict[str, Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return what must survive for the next round to be the one that would have come.

        To be called between two rounds. The model is not part of it, nor is any key: the server
        has none. What the wrapped strategy keeps is, if it has `state_dict` and
        `load_state_dict` or is one of Flower's.

        Returns
        -------
        dict
            Plain values that JSON takes, and arrays where the wrapped strategy keeps some.
        """
        return {
            "version": STATE_VERSION,
            "round": self.rounds_done,
            "selector": self.selector.state_dict(self.state),
            "wrapped": pack(kept_state(self.strategy)),
        }

    def load_state_dict(self, saved: dict[str, Any], *, interrupted: bool = True) -> None:
        """Take up a state; rounds are counted on from it.

        Parameters
        ----------
        saved : dict
            What `state_dict` returned.
        interrupted : bool (default: True)
            Whether nodes may have been asked for anything since the state was taken. They refuse
            to answer the same request twice, so a new epoch then begins.

        Raises
        ------
        CheckpointError
            If the version is another one, a key is missing or unknown, or a value is unfit.
        """
        version = saved.get("version") if isinstance(saved, dict) else None
        if isinstance(saved, dict) and "version" in saved and version != STATE_VERSION:
            raise CheckpointError(
                f"The state has version {version!r}, not {STATE_VERSION}; load it with the version "
                "of dubhe-flwr that wrote it."
            )
        values = check_keys(saved, ["version", "round", "selector", "wrapped"], "state")
        if type(values["round"]) is not int or values["round"] < 0:
            raise CheckpointError(f"state.round: {values['round']!r} is no round.")
        state = self.selector.load_state_dict(values["selector"], interrupted=interrupted)
        restore_state(self.strategy, unpack(values["wrapped"]))
        self.state = state
        self.rounds_done = self._first = values["round"]
        self._used = False

    def rounds_left(self, num_rounds: int) -> int:
        """Return how many of a run's rounds are still to come, after taking up its checkpoint.

        Parameters
        ----------
        num_rounds : int
            Rounds of the whole run.
        """
        self._resume()
        done = self.rounds_done if self._checkpoints is not None else self._first
        return max(0, num_rounds - done)

    def _begin_run(self) -> None:
        """Begin anew where this object has selected before, and take up the checkpoint if any.

        Epoch and draws are of the nodes of the run before, which may be others or gone.
        """
        if self._used:
            self._forget()
        self._resume()

    def _resume(self) -> None:
        """Take up the latest checkpoint, once."""
        if self._resumed or self._checkpoints is None:
            return
        self._resumed = True
        checkpoint = self._checkpoints.latest()
        if checkpoint is None:
            return
        wanted = ["state", "model", "generators"]
        values = check_keys(checkpoint.content, wanted, str(checkpoint.path))
        self.load_state_dict(values["state"], interrupted=checkpoint.left)
        try:
            self._resumed_model = unpack(values["model"])
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"The model in {checkpoint.path} cannot be read ({type(error).__name__}); restore "
                "its files or name an empty checkpoint_dir to begin anew."
            ) from None
        self._generators = values["generators"]
        log(
            INFO,
            "dubhe: going on after round %s of %s, %s; Flower's log counts rounds from 1",
            self.rounds_done,
            checkpoint.path,
            "in the same epoch" if getattr(self.state, "epoch", None) else "in a new epoch",
        )

    def _model_to_begin_with(self) -> Any:
        """Return the model of the checkpoint, with the generators as they were; None without."""
        self._begin_run()
        if self._generators is not None:
            restore_generators(self._generators)
            self._generators = None
        return self._resumed_model

    def _round(self, server_round: int) -> int:
        """Return the round of the whole run that Flower means."""
        return self._first + server_round

    def _begin_round(self, server_round: int) -> int:
        """Return the same of a round that begins; Flower's first one begins a run."""
        if server_round <= 1 and self._used:
            self._begin_run()
        self._used = True
        return self._round(server_round)

    def _complete(self, server_round: int, model: Any) -> None:
        """Take note that a round is over, with this model."""
        self.rounds_done = server_round
        if self._checkpoints is not None:
            content = {
                "state": self.state_dict(),
                "model": pack(model),
                "generators": generator_states(),
            }
            self._checkpoints.save(server_round, content)

    def _before_sending(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.mark_left()
