"""The messages by which an agent checks blocks of registrations before they are summed up."""

from dataclasses import dataclass

from dubhe_flwr.protocol.messages.require import require

__all__ = ["CheckReply", "CheckRequest"]


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """For each block, encrypted sums of the registries and of the label distributions.

    Parameters
    ----------
    registries, distributions : bytes
        The sums of all blocks, end to end.
    num_clients : tuple of int
        Number of clients in each block.
    """

    registries: bytes
    distributions: bytes
    num_clients: tuple[int, ...]

    def __post_init__(self) -> None:
        covered = len(self.num_clients) > 0 and min(self.num_clients) >= 1
        require(covered, "There is a block, and each covers a client.")


@dataclass(frozen=True, slots=True)
class CheckReply:
    """Which blocks add up, one bit each; nothing else."""

    passed: bytes
