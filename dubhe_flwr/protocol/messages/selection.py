"""The messages by which nodes take part and an agent determines who trains."""

from dataclasses import dataclass

from dubhe_flwr.protocol.messages.require import MAX_DRAWS, require

__all__ = [
    "DetermineReply",
    "DetermineRequest",
    "ParticipateReply",
    "ParticipateRequest",
]


@dataclass(frozen=True, slots=True)
class ParticipateRequest:
    """The encrypted overall registry, and the rounds and tries for which to draw.

    The encrypted probabilities are empty where nodes compute their own by eq. 6; the candidate is
    the best one of a search for thresholds, and 0 without a search.
    """

    overall_registry: bytes
    num_registered: int
    first_round: int
    num_rounds: int
    num_tries: int
    probabilities: bytes = b""
    candidate: int = 0

    def __post_init__(self) -> None:
        positive = min(self.num_registered, self.first_round, self.num_rounds, self.num_tries) >= 1
        require(positive, "Numbers of clients, rounds and tries are at least 1.")
        require(self.num_rounds * self.num_tries <= MAX_DRAWS, "More draws than any node makes.")


@dataclass(frozen=True, slots=True)
class ParticipateReply:
    """A node's own draws, one bit for each round and try, and the rounds it will not train in.

    The bit after those of the rounds says that its labels have moved since it registered.
    """

    decisions: bytes
    unwilling: bytes


@dataclass(frozen=True, slots=True)
class DetermineRequest:
    """For some rounds, encrypted sums of ``p_l`` and ``||p_l||^2``: one for each try or group.

    Parameters
    ----------
    sums : bytes
        The sums of all rounds, end to end.
    num_sums : tuple of int
        Number of sums of each round.
    num_clients : tuple of int
        Number of clients that each sum covers.
    """

    sums: bytes
    num_sums: tuple[int, ...]
    num_clients: tuple[int, ...]

    def __post_init__(self) -> None:
        require(len(self.num_sums) > 0 and min(self.num_sums) >= 1, "A round has a sum.")
        require(sum(self.num_sums) == len(self.num_clients), "Each sum covers some clients.")
        require(min(self.num_clients) >= 1, "A sum covers a client.")


@dataclass(frozen=True, slots=True)
class DetermineReply:
    """The index of the best try of each round, or the indices of its best groups; nothing else."""

    chosen: tuple[int, ...]
