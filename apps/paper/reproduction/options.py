"""What the user decides about a reproduction."""

from dataclasses import dataclass
from typing import Literal, get_args

from dubhe_flwr.errors import SettingsError

__all__ = ["Options", "Scale"]

Scale = Literal["small", "full"]

_NORMS = ("batch", "group")
_PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user decides about a reproduction.

    Parameters
    ----------
    scale : {"small", "full"} (default: "small")
        ``full`` is the paper's; ``small`` goes through all of it in minutes, on digits.
    datasets : tuple of str (default: all)
        Which of the paper's data sets to train on; none for selection alone.
    seeds : tuple of int (default: what the experiment takes)
        Each fixes federation, initial model, training and selection.
    num_rounds : int, optional (default: that of the scale)
        Rounds of each training.
    tries : tuple of int (default: the paper's)
        Values of ``H`` in `table2`.
    norm : {"batch", "group"} (default: "batch")
        Normalisation of ResNet18.
    precision : {"float32", "bfloat16"} (default: "float32")
        Of training; the latter is mixed precision.

    Raises
    ------
    SettingsError
        If a value is unknown or out of range.

    Examples
    --------
    >>> Options(scale="full").is_full
    True
    >>> Options(scale="tiny")
    Traceback (most recent call last):
    dubhe_flwr.errors.SettingsError: scale='tiny' must be one of small, full.
    """

    scale: Scale = "small"
    datasets: tuple[str, ...] = ("MNIST", "CIFAR10", "FEMNIST")
    seeds: tuple[int, ...] = ()
    num_rounds: int | None = None
    tries: tuple[int, ...] = ()
    norm: str = "batch"
    precision: str = "float32"

    def __post_init__(self) -> None:
        if self.scale not in get_args(Scale):
            raise SettingsError(
                f"scale={self.scale!r} must be one of {', '.join(get_args(Scale))}."
            )
        known = ("MNIST", "CIFAR10", "FEMNIST")
        if unknown := [name for name in self.datasets if name not in known]:
            raise SettingsError(f"datasets names {unknown[0]!r}; choose from {', '.join(known)}.")
        # All of it now: a command may take days, and use a value only at its end.
        for name, choices in (("norm", _NORMS), ("precision", _PRECISIONS)):
            if getattr(self, name) not in choices:
                raise SettingsError(
                    f"{name}={getattr(self, name)!r} must be one of {', '.join(choices)}."
                )
        if self.num_rounds is not None and self.num_rounds < 1:
            raise SettingsError(f"num_rounds={self.num_rounds} must be at least 1.")
        if min(self.seeds, default=0) < 0:
            raise SettingsError(f"seeds={','.join(map(str, self.seeds))} must be from 0 up.")

    @property
    def is_full(self) -> bool:
        """Whether the paper's sizes are wanted."""
        return self.scale == "full"
