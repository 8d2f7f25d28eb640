"""Packed Paillier encryption and the sealed delivery of its secret key."""

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

__all__ = [
    "Accumulator",
    "Field",
    "Layout",
    "PublicKey",
    "RecipientKey",
    "SealingContext",
    "SecretKey",
    "generate_secret_key",
    "homomorphic_sum",
    "open_sealed",
    "seal",
    "sealed_bytes",
]
