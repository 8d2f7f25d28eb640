"""The messages by which the thresholds of an epoch are searched for."""

from dataclasses import dataclass

from dubhe_flwr.protocol.messages.require import MAX_DRAWS, require

__all__ = [
    "ExpectReply",
    "ExpectRequest",
    "SearchReply",
    "SearchRequest",
]


@dataclass(frozen=True, slots=True)
class ExpectRequest:
    """The encrypted overall registries of all candidates, to find the best thresholds.

    Without tries a node tells what it adds to the expected data of each candidate; else it draws.
    """

    overall_registry: bytes
    num_registered: int
    num_tries: int = 0

    def __post_init__(self) -> None:
        require(self.num_registered >= 1, "A registry covers at least one client.")
        require(0 <= self.num_tries <= MAX_DRAWS, "More draws than any node makes.")


@dataclass(frozen=True, slots=True)
class ExpectReply:
    """The encrypted ``P_k p_l`` and ``P_k`` of each candidate, or a bit for each of its tries."""

    expectations: bytes
    decisions: bytes


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The encrypted sum of what many clients told, or a sum of ``p_l`` for each try.

    Parameters
    ----------
    sums : bytes
        One sum over all candidates, or those of all tries of all candidates, end to end.
    num_tries : int
        Tries of each candidate; 0 for expectations.
    num_clients : int
        Clients that each sum covers.
    """

    sums: bytes
    num_tries: int
    num_clients: int

    def __post_init__(self) -> None:
        require(self.num_clients >= 1, "A sum covers a client.")
        require(0 <= self.num_tries <= MAX_DRAWS, "More sums than any agent decrypts.")


@dataclass(frozen=True, slots=True)
class SearchReply:
    """The index of the best candidate; nothing else."""

    candidate: int
