"""Encrypted vectors of many nodes, added up as their replies are read."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from dubhe_flwr.errors import InvalidCiphertextError
from dubhe_flwr.he import Accumulator, PublicKey
from dubhe_flwr.protocol.messages import Message
from dubhe_flwr.protocol.plan import Batch, Replies, StageReport
from dubhe_flwr.protocol.selector import take_replies

__all__ = ["Intake", "sum_replies"]

MessageT = TypeVar("MessageT", bound=Message)
MessageT_contra = TypeVar("MessageT_contra", bound=Message, contravariant=True)


class Intake(Protocol[MessageT_contra]):
    """Keeps something of each reply that is used."""

    def clear(self) -> None:
        """Forget all of them: they are read again."""

    def take(self, node_id: int, reply: MessageT_contra) -> None:
        """Keep something of a reply."""


def sum_replies(  # noqa: PLR0917 - what is sent, received and added up
    batch: Batch,
    replies: Replies,
    public_key: PublicKey,
    num_ciphertexts: int,
    vector_of: Callable[[MessageT], bytes | None],
    intake: Intake[MessageT] | None = None,
) -> tuple[Accumulator, StageReport]:
    """Add up what the replies to a batch carry, without keeping the replies.

    Parameters
    ----------
    batch : Batch
        What was sent.
    replies : mapping
        As received.
    public_key : PublicKey
        The key of all vectors.
    num_ciphertexts : int
        Ciphertexts of each vector.
    vector_of : callable (message) -> bytes or None
        Returns the vector of a reply; None where its size is wrong.
    intake : Intake, optional
        Is told each reply that is used.

    Returns
    -------
    total : Accumulator
        The sum, which has a value if anything was added.
    report : StageReport
        Numbers and reasons.
    """
    total = Accumulator(public_key, num_ciphertexts)

    def take(node_id: int, reply: MessageT) -> str | None:
        vector = vector_of(reply)
        if vector is None:
            return "wrong size of ciphertexts"
        try:
            total.add(vector)
        except InvalidCiphertextError:
            return "invalid ciphertext"
        if intake is not None:
            intake.take(node_id, reply)
        return None

    def take_if_valid(node_id: int, reply: MessageT) -> str | None:
        vector = vector_of(reply)
        if vector is not None and not public_key.is_valid(vector, num_ciphertexts):
            return "invalid ciphertext"
        return take(node_id, reply)

    report = take_replies(batch, replies, take)
    if total.num_addends == 0 or total.is_valid():
        return total, report
    # One check of the sum covers all; only if it fails is each one looked at.
    total = Accumulator(public_key, num_ciphertexts)
    if intake is not None:
        intake.clear()
    return total, take_replies(batch, replies, take_if_valid)
