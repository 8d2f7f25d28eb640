"""Packed Paillier encryption, and the sealed and signed delivery of its secret key."""

from dubhe_flwr.he.layout import Layout, Slots
from dubhe_flwr.he.public_key import PublicKey, Unencrypted
from dubhe_flwr.he.sealing import RecipientKey, SealingContext, open_sealed, seal, sealed_bytes
from dubhe_flwr.he.secret_key import SecretKey, generate_secret_key
from dubhe_flwr.he.signing import SIGNATURE_BYTES, PinnedKeys, TrustedKeys

__all__ = [
    "SIGNATURE_BYTES",
    "Layout",
    "PinnedKeys",
    "PublicKey",
    "RecipientKey",
    "SealingContext",
    "SecretKey",
    "Slots",
    "TrustedKeys",
    "Unencrypted",
    "generate_secret_key",
    "open_sealed",
    "seal",
    "sealed_bytes",
]
