"""A second implementation of the wire format, written from its specification alone.

It shares no code with the package and is short rather than fast. Where the two agree on the
vectors, docs/reference/wire.md says what both of them do.
"""

import hashlib
import hmac
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SCALE: Final = 2**20
VERSION: Final = 1
TAG: Final = b"dubhe/1"

Fields = dict[str, bool | int | float | str | bytes]
Announced = Mapping[str, Any]
"""The values of a join request, lists not yet written as bytes."""


# --- messages -------------------------------------------------------------------------------------


def fields_of(values: Mapping[str, Any]) -> Fields:
    """Return the fields of a message: lists of numbers become bytes, eight a number."""
    written: Fields = {}
    for name, value in values.items():
        if isinstance(value, list):
            kind = "d" if any(isinstance(number, float) for number in value) else "q"
            written[name] = b"".join(struct.pack(f">{kind}", number) for number in value)
        else:
            written[name] = value
    return written


def header(epoch: bytes, stage: str, sequence: int) -> Fields:
    """Return the four fields that every message has."""
    return {"epoch": epoch, "stage": stage, "sequence": sequence, "version": VERSION}


# --- categories -----------------------------------------------------------------------------------


def codebook(reference_set: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the category of each slot, by listing them all."""
    classes = range(max(reference_set))
    return [u for size in sorted(reference_set) for u in combinations(classes, size)]


def category(
    counts: Sequence[int], reference_set: Sequence[int], thresholds: Sequence[float]
) -> tuple[int, ...]:
    """Return the dominating classes (Algorithm 1); shares are IEEE doubles."""
    total = float(sum(counts))
    order = sorted(range(len(counts)), key=lambda label: (-counts[label], label))
    for size, threshold in zip(sorted(reference_set)[:-1], thresholds, strict=True):
        if counts[order[size - 1]] / total >= threshold:
            return tuple(sorted(order[:size]))
    return tuple(range(len(counts)))


def slot(counts: Sequence[int], reference_set: Sequence[int], thresholds: Sequence[float]) -> int:
    """Return the place of a client's one in its registry."""
    return codebook(reference_set).index(category(counts, reference_set, thresholds))


def candidates(announced: Announced) -> list[list[float]]:
    """Return the thresholds of each candidate."""
    size = len(announced["reference-set"]) - 1
    flat = announced["thresholds"]
    return [flat[start : start + size] for start in range(0, len(flat), size or 1)] or [[]]


# --- fixed point ----------------------------------------------------------------------------------


def fixed_point(counts: Sequence[int]) -> list[int]:
    """Return p_l in integers of sum 2**20, by the largest remainder, ties to the lower class."""
    exact = [Fraction(count * SCALE, sum(counts)) for count in counts]
    floors = [int(share) for share in exact]
    missing = SCALE - sum(floors)
    order = sorted(range(len(counts)), key=lambda label: (floors[label] - exact[label], label))
    return [floor + (label in order[:missing]) for label, floor in enumerate(floors)]


def with_square(shares: Sequence[int]) -> list[int]:
    """Return p_l and behind it its squared norm, rounded half up."""
    square = Fraction(sum(share**2 for share in shares), SCALE)
    return [*shares, int(square + Fraction(1, 2))]


def label_shift(registered: Sequence[int], now: Sequence[int]) -> Fraction:
    """Return the L1 distance of two p_l, from 0 to 2."""
    return Fraction(sum(abs(a - b) for a, b in zip(registered, now, strict=True)), SCALE)


# --- packing --------------------------------------------------------------------------------------


def layout(announced: Announced) -> list[dict[str, Any]]:
    """Return name, size and place of each encrypted vector."""
    length = len(codebook(announced["reference-set"]))
    moments = max(announced["reference-set"]) + 1
    number = len(candidates(announced))
    slots = {
        "registry": (number * length, 1),
        "distribution": (moments, SCALE),
        "moments": (length * moments, SCALE),
        "probabilities": (length, SCALE),
        "expectations": (number * moments, SCALE),
    }
    fields = []
    for name, (num_slots, max_value) in slots.items():
        bits = (announced["max-clients"] * max_value).bit_length()
        per_ciphertext = (announced["key-bits"] - 3) // bits
        fields.append(
            {
                "name": name,
                "slots": num_slots,
                "max-value": max_value,
                "slot-bits": bits,
                "slots-per-ciphertext": per_ciphertext,
                "ciphertexts": -(-num_slots // per_ciphertext),
            }
        )
    return fields


def layout_digest(announced: Announced) -> bytes:
    """Return the SHA-256 of the layout as JSON."""
    fields = ", ".join(
        f'["{field["name"]}", {field["slots"]}, {field["max-value"]}]'
        for field in layout(announced)
    )
    text = (
        f'{{"fields": [{fields}], "key_bits": {announced["key-bits"]}, '
        f'"max_clients": {announced["max-clients"]}}}'
    )
    return hashlib.sha256(text.encode()).digest()


def pack(announced: Announced, name: str, values: Sequence[int]) -> list[int]:
    """Return the plaintexts of a vector, slot 0 in the lowest bits."""
    field = next(field for field in layout(announced) if field["name"] == name)
    bits, step = field["slot-bits"], field["slots-per-ciphertext"]
    return [
        sum(value << (place * bits) for place, value in enumerate(values[start : start + step]))
        for start in range(0, len(values), step)
    ]


# --- Paillier -------------------------------------------------------------------------------------


def encrypt(n: int, plaintexts: Iterable[int], r: int) -> bytes:
    """Encrypt with given randomness: (1 + m n) r^n mod n^2, for the i-th plaintext r + i."""
    square, size = n * n, n.bit_length() // 4
    return b"".join(
        ((1 + plaintext * n) * pow(r + index, n, square) % square).to_bytes(size, "big")
        for index, plaintext in enumerate(plaintexts)
    )


def add(n: int, *vectors: bytes) -> bytes:
    """Add encrypted vectors: products modulo n^2, ciphertext by ciphertext."""
    size = n.bit_length() // 4
    total = b""
    for start in range(0, len(vectors[0]), size):
        product = 1
        for vector in vectors:
            product = product * int.from_bytes(vector[start : start + size], "big") % (n * n)
        total += product.to_bytes(size, "big")
    return total


# --- sealed delivery and signatures ---------------------------------------------------------------


def prefixed(*parts: bytes) -> bytes:
    """Put parts end to end, each behind its length in four bytes."""
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def info(epoch: bytes, agent: bytes, recipient: bytes, modulus: bytes, digest: bytes) -> bytes:
    """Return what a sealed key is bound to."""
    return prefixed(TAG, epoch, agent, recipient, hashlib.sha256(modulus).digest(), digest)


def public_half(private: bytes) -> bytes:
    """Return the X25519 public key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def seal(plaintext: bytes, recipient: bytes, context: bytes, ephemeral: bytes) -> bytes:
    """Seal by RFC 9180, base mode, with a given ephemeral key: enc || ciphertext || tag."""
    kem, suite = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x02"
    own = X25519PrivateKey.from_private_bytes(ephemeral)
    enc = own.public_key().public_bytes_raw()
    secret = own.exchange(X25519PublicKey.from_public_bytes(recipient))
    shared = _expand(_extract(b"", b"eae_prk", secret, kem), b"shared_secret", enc + recipient, kem)
    psk_id, info_hash = (_extract(b"", name, what, suite) for name, what in _schedule(context))
    key_context = b"\x00" + psk_id + info_hash
    base = _extract(shared, b"secret", b"", suite)
    key = _expand(base, b"key", key_context, suite)
    nonce = _expand(base, b"base_nonce", key_context, suite, 12)
    return enc + AESGCM(key).encrypt(nonce, plaintext, b"")


def _schedule(context: bytes) -> tuple[tuple[bytes, bytes], ...]:
    return (b"psk_id_hash", b""), (b"info_hash", context)


def _extract(salt: bytes, label: bytes, key: bytes, suite: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + key, "sha256")


def _expand(key: bytes, label: bytes, what: bytes, suite: bytes, size: int = 32) -> bytes:
    text = struct.pack(">H", size) + b"HPKE-v1" + suite + label + what + b"\x01"
    return hmac.digest(key, text, "sha256")[:size]


def parameters_digest(announced: Announced) -> bytes:
    """Return the SHA-256 of all announced parameters, by name."""
    parts: list[bytes] = []
    for name, value in sorted(fields_of(announced).items()):
        assert not isinstance(value, str)
        written = value if isinstance(value, bytes) else _number(value)
        parts += [name.encode(), written]
    return hashlib.sha256(prefixed(*parts)).digest()


def _number(value: float) -> bytes:
    return struct.pack(">d" if isinstance(value, float) else ">q", value)


def join_statement(epoch: bytes, announced: Announced, public_key: bytes) -> bytes:
    """Return what a node signs when it joins."""
    return prefixed(b"join", TAG, epoch, parameters_digest(announced), public_key)


def bundle_statement(
    epoch: bytes, announced: Announced, agent: bytes, modulus: bytes, recipients: bytes
) -> bytes:
    """Return what an agent signs; the recipients are all public keys, end to end."""
    return prefixed(
        b"bundle",
        TAG,
        epoch,
        parameters_digest(announced),
        agent,
        hashlib.sha256(modulus).digest(),
        layout_digest(announced),
        hashlib.sha256(recipients).digest(),
    )


def sign(private: bytes, statement: bytes) -> bytes:
    """Return the signer's public key and its Ed25519 signature."""
    key = Ed25519PrivateKey.from_private_bytes(private)
    return key.public_key().public_bytes_raw() + key.sign(statement)


# --- draws and choices ----------------------------------------------------------------------------


def philox(key: int, counter: int) -> Iterator[int]:
    """Yield the 64-bit numbers of Philox4x64-10; the counter is raised before each four."""
    word = 2**64 - 1
    while True:
        counter = (counter + 1) % 2**256
        c = [counter >> shift & word for shift in (0, 64, 128, 192)]
        k = [key & word, key >> 64]
        for _ in range(10):
            left, right = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
            c = [right >> 64 ^ c[1] ^ k[0], right & word, left >> 64 ^ c[3] ^ k[1], left & word]
            k = [k[0] + 0x9E3779B97F4A7C15 & word, k[1] + 0xBB67AE8584CAA73B & word]
        yield from c


def seeded_draws(
    seed: int, alias: str, first_round: int, num_rounds: int, tries: int
) -> list[list[float]]:
    """Return a simulated node's numbers, a row for each round."""
    rows: list[list[float]] = [[] for _ in range(num_rounds)]
    for block in range(-(-tries // 32)):
        text = json.dumps([seed, "participation", alias, block])
        key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
        numbers = philox(key, first_round * 8)
        for row in rows:
            row += [(next(numbers) >> 11) * 2.0**-53 for _ in range(32)]
    return [row[:tries] for row in rows]


def bits(flags: Iterable[bool]) -> bytes:
    """Return flags as bits, the first one highest, filled up with zeros."""
    text = "".join("1" if flag else "0" for flag in flags)
    return bytes(int(text[start : start + 8].ljust(8, "0"), 2) for start in range(0, len(text), 8))


def probability(overall: Sequence[int], volunteers: int) -> list[float]:
    """Return P of each category (eq. 6) as IEEE doubles; 0 where nobody is."""
    filled = sum(count > 0 for count in overall)
    return [min(1.0, volunteers / (count * filled)) if count else 0.0 for count in overall]


def volunteers(participants: int, tries: int, clients: int) -> int:
    """Return V, how many clients shall draw a yes."""
    return max(participants, min(tries * participants, clients // 2))


def scores(sums: Sequence[Sequence[int]], local_skew: float) -> list[int]:
    """Return the score of each try; the last number of a sum is that of the squares."""
    found = []
    for *shares, square in sums:
        total, number = sum(shares), len(shares)
        uneven = sum(abs(number * share - total) for share in shares)
        found.append(uneven + round(local_skew * (number * square - total)))
    return found


def best_groups(sums: Sequence[Sequence[int]], quota: int, local_skew: float) -> list[int]:
    """Return the groups of one size that are best together: of all, the first of equal ones."""
    costs = [score - uneven for score, uneven in _parts(sums, local_skew)]

    def score(chosen: Sequence[int]) -> int:
        total = [sum(sums[index][place] for index in chosen) for place in range(len(sums[0]))]
        return scores([total], 0.0)[0] + sum(costs[index] for index in chosen)

    choices: list[tuple[int, ...]] = list(combinations(range(len(sums)), quota))
    best = min(choices, key=score)
    return list(best)


def _parts(sums: Sequence[Sequence[int]], local_skew: float) -> Iterator[tuple[int, int]]:
    return zip(scores(sums, local_skew), scores(sums, 0.0), strict=True)


def best_candidate(sums: Sequence[Sequence[int]]) -> int:
    """Return the candidate whose expected data is closest to uniform, the first of equal ones."""

    def distance(row: Sequence[int]) -> Fraction:
        *shares, expected = row
        return sum(
            (abs(Fraction(share, expected) - Fraction(1, len(shares))) for share in shares),
            Fraction(0),
        )

    return min(range(len(sums)), key=lambda index: distance(sums[index]))
