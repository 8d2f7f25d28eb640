"""Vectors of what must be refused: spoilt messages, ciphertexts, keys and signatures."""

from collections.abc import Iterator
from typing import Any

from vectors import reference as ref
from vectors.exchange import messages
from vectors.inputs import (
    ANNOUNCED,
    CALIBRATED,
    EPOCH,
    MODULUS,
    NODE,
    OTHER_EPOCH,
    STRANGER,
    Case,
    N,
    P,
    all_told,
    prime,
    sealing,
    secret,
)


def bad_messages() -> Iterator[Case]:
    """Fields that are no message, or one of another time."""
    good = {f"{case['stage']} {case['kind']}": case for case in messages()}

    def spoilt(of: str, name: str, error: str = "MalformedMessageError", **change: Any) -> Case:
        fields = dict(good[of]["fields"])
        for key, value in change.items():
            if value is None:
                del fields[key.replace("_", "-")]
            else:
                fields |= all_told(ref.fields_of({key.replace("_", "-"): value}))
        return {
            "name": f"{of}: {name}",
            "kind": good[of]["kind"],
            "stage": good[of]["stage"],
            "sequence": good[of]["sequence"],
            "fields": fields,
            "error": error,
        }

    yield spoilt("hello request", "another version", "StaleMessageError", version=2)
    yield spoilt("hello request", "no version", version=None)
    yield spoilt("hello request", "an unknown stage", stage="train")
    yield spoilt("hello request", "a short epoch", epoch=EPOCH[:15])
    yield spoilt("hello request", "the epoch as text", epoch=EPOCH.hex())
    yield spoilt("hello request", "sequence 0", sequence=0)
    yield spoilt("hello request", "sequence is a truth value", sequence=True)
    yield spoilt("hello request", "a field too many", label=3)
    yield spoilt("hello reply", "of another epoch", "StaleMessageError", epoch=OTHER_EPOCH)
    yield spoilt("hello reply", "of another request", "StaleMessageError", sequence=9)
    yield spoilt("hello reply", "an empty alias", alias="")
    yield spoilt("hello reply", "an alias of 257 bytes", alias="a" * 257)
    yield spoilt("hello reply", "an alias of two lines", alias="3\n4")
    yield spoilt("hello reply", "a control character in the alias", alias="3\x1b[2J")
    yield spoilt("hello reply", "a line separator in the alias", alias="3\u2028")
    yield spoilt("hello reply", "willing is a number", willing=1)
    yield spoilt("join request", "a threshold too few", thresholds=[0.6])
    yield spoilt("join request", "numbers that are not whole", thresholds=bytes(15))
    yield spoilt("join request", "K below min-cohort", num_participants=2)
    yield spoilt("join request", "coverage is not a number", coverage="much")
    yield spoilt("join request", "floor above 1", floor=1.5)
    yield spoilt("join request", "a group larger than K", group_size=5)
    yield spoilt("join request", "a block of min-cohort", block_size=3)
    yield spoilt("join request", "coverage is whole", coverage=1)
    yield spoilt("join request", "no group-size", group_size=None)
    yield spoilt("join reply", "status 6", status=6)
    yield spoilt("join reply", "a key of 31 bytes", public_key=bytes(31))
    yield spoilt("join reply", "a signature of 64 bytes", signature=bytes(64))
    yield spoilt("keygen request", "a broken key", public_keys=bytes(95))
    yield spoilt("register request", "a digest of 31 bytes", recipients_digest=bytes(31))
    yield spoilt("check request", "no block", num_clients=b"")
    yield spoilt("expect request", "nobody registered", num_registered=0)
    yield spoilt("search request", "a negative number of tries", num_tries=-1)
    yield spoilt("calibrate request", "more clients than registered", num_clients=101)
    yield spoilt("participate request", "round 0", first_round=0)
    yield spoilt("participate request", "too many draws", num_tries=2**20)
    yield spoilt("determine request", "sums of nobody", num_clients=[4, 4, 5, 4, 0])
    yield spoilt("determine request", "a number too few", num_clients=[4, 4, 5, 4])
    yield spoilt("determine reply", "of another stage", stage="participate")


def bad_ciphertexts() -> Iterator[Case]:
    """Bytes that a node does not decrypt."""
    good = ref.encrypt(N, [42], 7)
    for name, vector in (
        ("empty", b""),
        ("a byte too few", good[:-1]),
        ("a byte too many", good + b"\x00"),
        ("zero", bytes(128)),
        ("n", N.to_bytes(128, "big")),
        ("n^2", (N * N).to_bytes(128, "big")),
        ("a multiple of p", (P * 12345).to_bytes(128, "big")),
        ("a good one, then zero", good + bytes(128)),
    ):
        yield {
            "name": name,
            "modulus": MODULUS.hex(),
            "p": f"{P:064x}",
            "vector": vector.hex(),
            "error": "DecryptionError",
        }


def bad_packings() -> Iterator[Case]:
    """Plaintexts that cannot be the sum of so many clients."""
    for name, field, plaintexts, clients in (
        ("a slot above its bound", "registry", [5], 4),
        ("bits behind the last slot", "registry", [1 << 55], 4),
        ("a plaintext too many", "registry", [1, 0], 4),
        ("none", "registry", [], 4),
        ("a share above one each", "distribution", [4 * 2**20 + 1], 4),
    ):
        yield {
            "name": name,
            "parameters": all_told(ANNOUNCED),
            "field": field,
            "num-clients": clients,
            "plaintexts": [f"{plaintext:x}" for plaintext in plaintexts],
            "error": "DecryptionError",
        }


def bad_sealed_keys() -> Iterator[Case]:
    """Sealed keys that do not open, or hold no prime of the modulus."""
    good = sealing()
    flipped = bytearray.fromhex(good["sealed"])
    flipped[40] ^= 1
    for name, case in (
        ("changed on the way", good | {"sealed": flipped.hex()}),
        ("a byte too few", good | {"sealed": good["sealed"][:-2]}),
        ("empty", good | {"sealed": ""}),
        ("for another recipient", good | {"recipient-private-key": STRANGER.hex()}),
        ("of another epoch", good | {"epoch": OTHER_EPOCH.hex()}),
        ("of another agent", good | {"agent-public-key": ref.public_half(STRANGER).hex()}),
        ("of another layout", good | {"layout-digest": bytes(32).hex()}),
        ("no prime of the modulus", sealing(plaintext=prime("r").to_bytes(32, "big"))),
        ("one", sealing(plaintext=(1).to_bytes(32, "big"))),
        ("a prime with a zero in front", sealing(plaintext=P.to_bytes(33, "big"))),
    ):
        yield {"name": name} | case | {"error": "SealError"}


def bad_signatures() -> Iterator[Case]:
    """Signatures that a node with pinned keys does not accept for a statement."""
    statement = ref.join_statement(EPOCH, ANNOUNCED, ref.public_half(NODE))
    good = ref.sign(secret("signing"), statement)
    for name, signature in (
        ("none", bytes(96)),
        ("by a stranger", ref.sign(STRANGER, statement)),
        ("another's key before it", ref.sign(STRANGER, statement)[:32] + good[32:]),
        ("changed", good[:-1] + bytes([good[-1] ^ 1])),
        ("a byte too few", good[:-1]),
        ("of another epoch", ref.sign(secret("signing"), ref.join_statement(
            OTHER_EPOCH, ANNOUNCED, ref.public_half(NODE)))),
        ("of other parameters", ref.sign(secret("signing"), ref.join_statement(
            EPOCH, CALIBRATED, ref.public_half(NODE)))),
    ):  # fmt: skip
        yield {
            "name": name,
            "trusted-keys": [ref.sign(secret("signing"), b"")[:32].hex()],
            "statement": statement.hex(),
            "signature": signature.hex(),
            "error": "UntrustedError",
        }
