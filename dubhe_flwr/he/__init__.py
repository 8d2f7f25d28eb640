"""Packed Paillier encryption, and the sealed and signed delivery of its secret key."""

from dubhe_flwr.he.accumulation import Accumulator, homomorphic_sum
from dubhe_flwr.he.layout import Field, Layout
from dubhe_flwr.he.public_key import PublicKey
from dubhe_flwr.he.sealing import (
    RecipientKey,
    SealingContext,
    open_sealed,
    seal,
    sealed_bytes,
)
from dubhe_flwr.he.secret_key import SecretKey, generate_secret_key
from dubhe_flwr.he.signing import NO_SIGNATURE, SIGNATURE_BYTES, PinnedKeys, TrustedKeys

__all__ = [
    "NO_SIGNATURE",
    "SIGNATURE_BYTES",
    "Accumulator",
    "Field",
    "Layout",
    "PinnedKeys",
    "PublicKey",
    "RecipientKey",
    "SealingContext",
    "SecretKey",
    "TrustedKeys",
    "generate_secret_key",
    "homomorphic_sum",
    "open_sealed",
    "seal",
    "sealed_bytes",
]
