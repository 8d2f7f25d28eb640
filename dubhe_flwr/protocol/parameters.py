"""What both sides derive from the parameters of an epoch."""

from functools import lru_cache
from typing import Final

from dubhe_flwr.core import (
    FIXED_POINT_SCALE,
    MAX_REGISTRY_LENGTH,
    Codebook,
    check_thresholds,
)
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.he import Field, Layout, PublicKey, SealingContext
from dubhe_flwr.protocol.envelope import PROTOCOL_VERSION
from dubhe_flwr.protocol.messages import JoinRequest

__all__ = [
    "DISTRIBUTION",
    "EXPECTATIONS",
    "MOMENTS",
    "PROBABILITIES",
    "PROTOCOL_TAG",
    "REGISTRY",
    "EpochParameters",
    "epoch_parameters",
    "sealing_context",
]

PROTOCOL_TAG: Final = f"dubhe/{PROTOCOL_VERSION}"
"""What every signature and sealed key is bound to, beside its epoch."""

REGISTRY: Final = "registry"
DISTRIBUTION: Final = "distribution"
MOMENTS: Final = "moments"
PROBABILITIES: Final = "probabilities"
EXPECTATIONS: Final = "expectations"
MAX_CLASSES: Final = MAX_REGISTRY_LENGTH
MAX_KEY_BITS: Final = 8192


class EpochParameters:
    """Codebook, candidates for the thresholds, and layout of an epoch, checked.

    Parameters
    ----------
    announced : JoinRequest
        The parameters as they travel.

    Raises
    ------
    RefusedError
        If they cannot work.
    """

    def __init__(self, announced: JoinRequest) -> None:
        self.announced = announced
        num_classes = max(announced.reference_set, default=0)
        # Neither counting the slots nor making the key may keep a node busy for ever.
        if num_classes > MAX_CLASSES or announced.key_bits > MAX_KEY_BITS:
            raise RefusedError(
                f"An epoch has at most {MAX_CLASSES} classes and keys of {MAX_KEY_BITS} bits, not "
                f"{num_classes} and {announced.key_bits}."
            )
        if list(announced.reference_set) != sorted(set(announced.reference_set)):
            raise RefusedError("The sizes of the reference set are not in ascending order.")
        try:
            self.codebook = Codebook(announced.reference_set)
            sizes = announced.reference_set[:-1]
            self.candidates = tuple(
                check_thresholds(self.codebook, dict(zip(sizes, shares, strict=True)))
                for shares in batched_thresholds(announced)
            )
            num_candidates = len(self.candidates)
            num_moments = self.codebook.num_classes + 1  # p_l and ||p_l||^2
            self.layout = Layout(
                announced.key_bits,
                announced.max_clients,
                (
                    Field(REGISTRY, num_candidates * self.codebook.length, 1),
                    Field(DISTRIBUTION, num_moments, FIXED_POINT_SCALE),
                    Field(MOMENTS, self.codebook.length * num_moments, FIXED_POINT_SCALE),
                    Field(PROBABILITIES, self.codebook.length, FIXED_POINT_SCALE),
                    Field(EXPECTATIONS, num_candidates * num_moments, FIXED_POINT_SCALE),
                ),
            )
        except SettingsError as error:
            raise RefusedError(f"The parameters of the epoch cannot work: {error}") from None


@lru_cache(maxsize=16)
def epoch_parameters(announced: JoinRequest) -> EpochParameters:
    """Return the checked parameters of an epoch, computed once for all nodes of a simulation.

    Examples
    --------
    >>> announced = JoinRequest((1, 2, 10), (0.7, 0.1), 20, 2048, 1000, 3, 1000, 500, -1)
    >>> epoch_parameters(announced).codebook.length
    56
    """
    return EpochParameters(announced)


def sealing_context(
    epoch: bytes, agent_public_key: bytes, public_key: PublicKey, layout: Layout
) -> SealingContext:
    """Return what a sealed key is bound to."""
    return SealingContext(
        protocol=PROTOCOL_TAG,
        epoch_id=epoch,
        agent_public=agent_public_key,
        modulus_digest=public_key.digest(),
        layout_digest=layout.digest(),
    )


def batched_thresholds(announced: JoinRequest) -> list[tuple[float, ...]]:
    """Return the thresholds of each candidate.

    Examples
    --------
    >>> announced = JoinRequest((1, 2, 10), (0.7, 0.1, 0.5, 0.2), 20, 2048, 1000, 3, 1000, 500, -1)
    >>> batched_thresholds(announced)
    [(0.7, 0.1), (0.5, 0.2)]
    """
    size = len(announced.thresholds) // announced.num_candidates
    return [
        announced.thresholds[index * size : (index + 1) * size]
        for index in range(announced.num_candidates)
    ]
