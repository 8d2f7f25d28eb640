"""The list of all nodes that joined an epoch, as shown to its agent or committee."""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from dubhe_flwr.he.sealing import prefixed
from dubhe_flwr.he.signing import SIGNATURE_BYTES
from dubhe_flwr.protocol.wire.codec import require

DIGEST_BYTES: Final = 32
PUBLIC_KEY_BYTES: Final = 32
LARGEST_WEIGHT: Final = 4.0
"""Largest weight of a node relative to the mean; the smallest is its inverse."""


@dataclass(frozen=True, slots=True)
class Roster:
    """The nodes that joined, ordered by alias, with what each of them signed.

    The signatures come from the nodes' replies to join. Checking them takes only the digest of an
    alias, not the alias itself.
    """

    public_keys: bytes
    num_examples: tuple[int, ...] | None = None  # one per node, if nodes are weighted
    alias_digests: bytes | None = None  # if nodes signed
    signatures: bytes | None = None  # one per node, if nodes signed

    def __post_init__(self) -> None:
        require(len(self.public_keys) % PUBLIC_KEY_BYTES == 0, "A public key must have 32 bytes.")
        told = self.num_examples
        fits = told is None or (len(told) == len(self) and min(told, default=1) >= 1)
        require(fits, "Each node must have at least one sample.")
        require(len(self.alias_digests or b"") % DIGEST_BYTES == 0, "A digest must have 32 bytes.")
        require_signatures(self.signatures)

    def __len__(self) -> int:
        return len(self.public_keys) // PUBLIC_KEY_BYTES

    @property
    def keys(self) -> list[bytes]:
        """The nodes' keys for sealed delivery."""
        return list(split(self.public_keys, PUBLIC_KEY_BYTES))

    @property
    def mean_examples(self) -> float | None:
        """Mean number of samples, if nodes are weighted; robust to a node that lies.

        It has two significant digits, since an exact mean would tell every node how many samples a
        joining or leaving node has.
        """
        if not self.num_examples:
            return None
        most = int(LARGEST_WEIGHT * median(self.num_examples))  # exact: medians end in .0 or .5
        mean = sum(min(number, most) for number in self.num_examples) / len(self)
        return float(f"{mean:.2g}")

    @property
    def digest(self) -> bytes:
        """SHA-256 of everything but the signatures."""
        numbers = self.num_examples or ()
        told = struct.pack(f">{len(numbers)}q", *numbers)
        return hashlib.sha256(prefixed(self.public_keys, told, self.alias_digests or b"")).digest()


def weight_of(num_examples: int, mean_examples: float | None) -> float:
    """Return a node's weight relative to the mean, within bounds; 1 if there is no mean."""
    if mean_examples is None:
        return 1.0
    return min(max(num_examples / mean_examples, 1.0 / LARGEST_WEIGHT), LARGEST_WEIGHT)


def alias_digest(alias: str) -> bytes:
    """Return the SHA-256 of an alias."""
    return hashlib.sha256(alias.encode(errors="surrogatepass")).digest()


def require_signatures(signatures: bytes | None) -> None:
    """Refuse signatures of a wrong size."""
    fits = len(signatures or b"") % SIGNATURE_BYTES == 0
    require(fits, f"Signatures must have {SIGNATURE_BYTES} bytes each.")


def split(joined: bytes, size: int) -> Iterator[bytes]:
    """Yield the byte strings of one size that were concatenated."""
    return (joined[start : start + size] for start in range(0, len(joined), size))
