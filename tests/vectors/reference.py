"""A second implementation, from the specification alone, of the wire format and of a round.

It shares no code with the package and is short rather than fast. Where the two agree on the
vectors, docs/reference/wire.md says what both of them do. Where they agree on a round, encryption
changes nothing: here is the same selection in plain numbers.
"""

import hashlib
import hmac
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SCALE: Final = 2**20
VERSION: Final = 1
TAG: Final = b"dubhe/1"

Fields = dict[str, bool | int | float | str | bytes]
Announced = Mapping[str, Any]
"""The fields of a join request."""


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


@cache
def codebook(reference_set: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the category of each slot, by enumeration."""
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


def reference_set(announced: Announced) -> tuple[int, ...]:
    """Return ``G``."""
    return tuple(json.loads(announced["rule-settings"])["reference_set"])


def candidates(announced: Announced) -> list[list[float]]:
    """Return the given thresholds, or the candidates of the search."""
    sizes = sorted(reference_set(announced))[:-1]
    given = json.loads(announced["rule-settings"])["thresholds"]
    if given != "search":
        return [[given[str(size)] for size in sizes]]
    shares = [
        [k / (10 * size) for k in (2, 4, 6)] if size > 1 else [0.5, 0.7, 0.9] for size in sizes
    ]
    return [list(chosen) for chosen in product(*shares)]


def slots_of(announced: Announced, counts: Sequence[int]) -> list[int]:
    """Return the slot of a client's one in its registry, for each candidate."""
    sizes = reference_set(announced)
    found = [category(counts, sizes, sigma) for sigma in candidates(announced)]
    return list(map(codebook(sizes).index, found))


def registration(announced: Announced, counts: Sequence[int]) -> list[int]:
    """Return a client's one-hot registries, concatenated."""
    length = len(codebook(reference_set(announced)))
    return [int(place == own) for own in slots_of(announced, counts) for place in range(length)]


# --- fixed point ----------------------------------------------------------------------------------


def fixed_point(counts: Sequence[int], total: int = SCALE) -> list[int]:
    """Return p_l as integers with this sum, by largest remainder; ties go to the lower class."""
    exact = [Fraction(count * total, sum(counts)) for count in counts]
    floors = [int(share) for share in exact]
    missing = total - sum(floors)
    order = sorted(range(len(counts)), key=lambda label: (floors[label] - exact[label], label))
    return [floor + (label in order[:missing]) for label, floor in enumerate(floors)]


def with_square(shares: Sequence[int]) -> list[int]:
    """Return w p_l followed by w times its squared norm, rounded half up."""
    square = Fraction(sum(share**2 for share in shares), sum(shares))
    return [*shares, int(square + Fraction(1, 2))]


def weight(size: int, mean: float) -> float:
    """Return a node's weight, from its number of samples."""
    return min(max(size / mean, 0.25), 4.0)


def mean_size(label_counts: Sequence[Sequence[int]]) -> float:
    """Return the mean number of samples, each capped at four times the median, in two digits."""
    sizes = [sum(counts) for counts in label_counts]
    most = 4.0 * median(sizes)
    return float(f"{sum(min(size, most) for size in sizes) / len(sizes):.1e}")


def weighted(counts: Sequence[int], own: float) -> list[int]:
    """Return w p_l for a node weighted by its samples; the largest w is 4."""
    return fixed_point(counts, round(SCALE * own / 4))


# --- packing --------------------------------------------------------------------------------------


def layout(announced: Announced) -> list[dict[str, Any]]:
    """Return the name, size and position of each encrypted vector."""
    sizes, number = reference_set(announced), len(candidates(announced))
    kinds = {"registration": (number * len(codebook(sizes)), 1)}
    if announced["has-agent"]:
        kinds["distribution"] = (max(sizes) + 1, SCALE)
    if number > 1:
        kinds["settlement"] = (number * (max(sizes) + 1), SCALE)
    fields = []
    for name, (num_slots, max_value) in kinds.items():
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


def pack(announced: Announced, name: str, values: Sequence[int]) -> list[int]:
    """Return a vector's plaintexts, with slot 0 in the lowest bits."""
    field = next(field for field in layout(announced) if field["name"] == name)
    bits, step = field["slot-bits"], field["slots-per-ciphertext"]
    return [
        sum(value << (place * bits) for place, value in enumerate(values[start : start + step]))
        for start in range(0, len(values), step)
    ]


# --- Paillier -------------------------------------------------------------------------------------


def in_the_clear(values: Sequence[int]) -> bytes:
    """Return what a simulated node sends instead of ciphertexts."""
    return b"".join(struct.pack(">q", value) for value in values)


def encrypt(n: int, plaintexts: Iterable[int], r: int) -> bytes:
    """Encrypt with given randomness: (1 + m n) r^n mod n^2, with r + i for the i-th plaintext."""
    square, size = n * n, n.bit_length() // 4
    return b"".join(
        ((1 + plaintext * n) * pow(r + index, n, square) % square).to_bytes(size, "big")
        for index, plaintext in enumerate(plaintexts)
    )


def add(n: int, *vectors: bytes) -> bytes:
    """Add encrypted vectors: multiply modulo n^2, ciphertext by ciphertext."""
    size = n.bit_length() // 4
    total = b""
    for start in range(0, len(vectors[0]), size):
        product = 1
        for vector in vectors:
            product = product * int.from_bytes(vector[start : start + size], "big") % (n * n)
        total += product.to_bytes(size, "big")
    return total


# --- the committee --------------------------------------------------------------------------------

PRIME: Final = 2**61 - 1


def hkdf(key: bytes, purpose: bytes) -> bytes:
    """Return 32 bytes derived for a purpose (RFC 5869 with SHA-256, no salt)."""
    return hmac.digest(hmac.digest(bytes(32), key, "sha256"), purpose + b"\x01", "sha256")


def pad(key: bytes, name: bytes, number: int) -> list[int]:
    """Return 61-bit numbers from SHAKE-256."""
    stream = hashlib.shake_256(key + name).digest(8 * number)
    words = struct.unpack(f"<{number}Q", stream)
    return [word % 2**61 % PRIME for word in words]


def label(field: str, number: int) -> bytes:
    """Return the label of a sum in an epoch."""
    return prefixed(field.encode(), struct.pack(">q", number))


def pad_name(group: bytes, name: bytes, number: int) -> bytes:
    """Return the name of the pads for `number` numbers of a sum under a group key."""
    return prefixed(name, struct.pack(">q", number), hashlib.sha256(group).digest())


def group_key(before: bytes, known: bytes) -> bytes:
    """Return the key that nodes use, from the one before and a state, or the last opened sum."""
    return hkdf(before, prefixed(b"group", known))


def sealed_state(key: bytes, state: bytes) -> bytes:
    """Return how the last epoch ended, sealed once for all nodes that know a key."""
    return AESGCM(hkdf(key, b"state")).encrypt(bytes(12), state, None)


def tagged(group: bytes, name: bytes, values: Sequence[int]) -> list[int]:
    """Return numbers followed by their tag."""
    factors = pad(group, prefixed(b"tag", name), len(values))
    tag = sum(factor * value for factor, value in zip(factors, values, strict=True))
    return [value % PRIME for value in [*values, tag]]


def masked(values: Sequence[int], pads: Sequence[Sequence[int]]) -> bytes:
    """Return numbers plus their pads, eight bytes each."""
    sums = (sum(column) % PRIME for column in zip(values, *pads, strict=True))
    return b"".join(struct.pack(">Q", each) for each in sums)


def member_part(  # noqa: PLR0917 - whose part of which sum
    group: bytes,
    place: int,
    name: bytes,
    pad_keys: Sequence[bytes],
    noise: Sequence[int],
    covered: bytes,
    total: bytes,
) -> bytes:
    """Return a member's sealed part of a sum: its pads, less its noise."""
    pads = [pad(key, pad_name(group, name, len(noise)), len(noise) + 1) for key in pad_keys]
    released = masked([-value for value in tagged(group, name, noise)], pads)
    digests = hashlib.sha256(covered).digest(), hashlib.sha256(total).digest()
    key = hkdf(group, prefixed(b"release", name, *digests))
    return AESGCM(key).encrypt(bytes(11) + bytes([place]), released, None)


def proof(  # noqa: PLR0917 - of which sum, with which key
    pad_key: bytes, name: bytes, covered: bytes, num_clients: int, total: bytes, part: bytes
) -> bytes:
    """Return a member's proof for one node that it opened a sum."""
    number = struct.pack(">Q", num_clients)
    opened = prefixed(name, hashlib.sha256(covered).digest(), number, total, part)
    statement = prefixed(b"opened", hashlib.sha256(opened).digest())
    return hashlib.shake_256(pad_key + statement).digest(16)


# --- sealed delivery and signatures ---------------------------------------------------------------


def prefixed(*parts: bytes) -> bytes:
    """Concatenate the parts, each after its length in four bytes."""
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def public_half(private: bytes) -> bytes:
    """Return the X25519 public key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def seal(plaintext: bytes, recipient: bytes, context: bytes, ephemeral: bytes) -> bytes:
    """Seal by RFC 9180 in base mode, with a given ephemeral key: enc || ciphertext || tag."""
    kem, suite = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x02"
    own = X25519PrivateKey.from_private_bytes(ephemeral)
    enc = own.public_key().public_bytes_raw()
    secret = own.exchange(X25519PublicKey.from_public_bytes(recipient))
    shared = _expand(_extract(b"", b"eae_prk", secret, kem), b"shared_secret", enc + recipient, kem)
    key_context = b"\x00" + _extract(b"", b"psk_id_hash", b"", suite)
    key_context += _extract(b"", b"info_hash", context, suite)
    base = _extract(shared, b"secret", b"", suite)
    key = _expand(base, b"key", key_context, suite)
    nonce = _expand(base, b"base_nonce", key_context, suite, 12)
    return enc + AESGCM(key).encrypt(nonce, plaintext, b"")


def _extract(salt: bytes, label: bytes, key: bytes, suite: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + key, "sha256")


def _expand(key: bytes, label: bytes, what: bytes, suite: bytes, size: int = 32) -> bytes:
    text = struct.pack(">H", size) + b"HPKE-v1" + suite + label + what + b"\x01"
    return hmac.digest(key, text, "sha256")[:size]


def parameters_digest(announced: Announced) -> bytes:
    """Return the SHA-256 of all announced parameters, by name."""
    parts: list[bytes] = []
    for name, value in sorted(announced.items()):
        written = value.encode() if isinstance(value, str) else value
        written = struct.pack(">q", value) if isinstance(value, int) else written
        parts += [name.encode(), written]
    return hashlib.sha256(prefixed(*parts)).digest()


def join_statement(
    epoch: bytes, announced: Announced, public_key: bytes, alias: str, examples: int = 0
) -> bytes:
    """Return what a node signs when it joins."""
    told = struct.pack(">q", examples)
    return prefixed(
        b"join", TAG, epoch, parameters_digest(announced), public_key, told, alias_digest(alias)
    )


def alias_digest(alias: str) -> bytes:
    """Return the digest that stands for an alias."""
    return hashlib.sha256(alias.encode()).digest()


def appointment(
    epoch: bytes, announced: Announced, told: Mapping[str, Any], place: int, recipient: bytes
) -> bytes:
    """Return what an opener signs for a recipient, and under which the first one seals its key."""
    fields = [[field["name"], field["slots"], field["max-value"]] for field in layout(announced)]
    numbers = struct.pack(">qqd", told["num-joined"], place, told.get("mean-examples", 0.0))
    made = (b"", b"") if place else (told["public"], told.get("state", b""))
    return prefixed(
        b"appointment",
        TAG,
        epoch,
        parameters_digest(announced),
        json.dumps(fields).encode(),
        told["roster"],
        told["opener-keys"],
        numbers,
        *made,
        recipient,
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


def draw_key(seed: int, *path: str | int) -> bytes:
    """Return the key of the random numbers for a purpose."""
    return hashlib.sha256(json.dumps([seed, *path]).encode()).digest()[:16]


def seeded_draws(
    seed: int, alias: str, first_round: int, num_rounds: int, tries: int
) -> list[list[float]]:
    """Return a simulated node's numbers, one row per round."""
    rows: list[list[float]] = [[] for _ in range(num_rounds)]
    for block in range(-(-tries // 32)):
        key = int.from_bytes(draw_key(seed, "participation", alias, block), "big")
        numbers = philox(key, first_round * 8)
        for row in rows:
            row += [(next(numbers) >> 11) * 2.0**-53 for _ in range(32)]
    return [row[:tries] for row in rows]


def bits(flags: Iterable[bool]) -> bytes:
    """Return flags as bits, the first one highest, padded with zeros."""
    return np.packbits(list(flags)).tobytes()


def probability(overall: Sequence[int], wanted: int) -> list[float]:
    """Return P of each category (eq. 6) as IEEE doubles; an empty category gets K / N."""
    filled = sum(count > 0 for count in overall)
    uniform = min(1.0, wanted / sum(overall))
    return [min(1.0, wanted / (count * filled)) if count else uniform for count in overall]


def own_probabilities(
    announced: Announced, counts: Sequence[int], overall: Sequence[int]
) -> list[float]:
    """Return a client's P under each candidate, from the concatenated overall registries."""
    own = slots_of(announced, counts)
    length = len(overall) // len(own)
    rows = [overall[start : start + length] for start in range(0, len(overall), length)]
    wanted = int(announced["num-participants"])
    return [probability(row, wanted)[slot] for row, slot in zip(rows, own, strict=True)]


def expectations(announced: Announced, counts: Sequence[int], overall: Sequence[int]) -> list[int]:
    """Return a client's contribution to each candidate's expected data, concatenated."""
    shares, found = [*fixed_point(counts), SCALE], own_probabilities(announced, counts, overall)
    length, own = len(overall) // len(found), slots_of(announced, counts)
    there = [overall[k * length + slot] > 0 for k, slot in enumerate(own)]
    return [round(p * share) * there[k] for k, p in enumerate(found) for share in shares]


def best_candidate(sums: Sequence[int], num_classes: int) -> int:
    """Return the candidate whose expected data is closest to uniform; ties go to the first."""
    width = num_classes + 1
    distances = []
    for start in range(0, len(sums), width):
        *shares, expected = sums[start : start + width]
        apart = (abs(Fraction(s, expected) - Fraction(1, num_classes)) for s in shares)
        distances.append(sum(apart, Fraction(0)))
    return distances.index(min(distances))


def scores(
    sums: Sequence[Sequence[int]], local_skew: float = 0.0, target: Sequence[float] | None = None
) -> list[float]:
    """Return the score of each try: whole numbers over C times the sum of the weights.

    The last number of a sum is the sum of squares.
    """
    number = len(sums[0]) - 1
    ratio = [number * share for share in target] if target else [1.0] * number
    of_all = sum(wanted * wanted for wanted in ratio) / number
    found = []
    for *shares, square in sums:
        total, pairs = sum(shares), list(zip(shares, ratio, strict=True))
        apart = sum(abs(number * share - round(total * wanted)) for share, wanted in pairs)
        across = sum(2 * share * wanted for share, wanted in pairs)
        cost = round(local_skew * (number * square - across + total * of_all))
        found.append((apart + cost) / (number * total))
    return found


# --- a round, in the clear ------------------------------------------------------------------------


class Round(NamedTuple):
    """A round in plain numbers."""

    tries: list[list[int]]
    best: int
    chosen: list[int]


def generator(seed: int, *path: str | int) -> np.random.Generator:
    """Return the random generator for a purpose."""
    key = int.from_bytes(draw_key(seed, *path), "big")
    return np.random.Generator(np.random.Philox(key=key))


def overall_registry(announced: Announced, label_counts: Sequence[Sequence[int]]) -> list[int]:
    """Return the number of clients in each category."""
    return added(registration(announced, counts) for counts in label_counts)


def all_probabilities(
    announced: Announced, label_counts: Sequence[Sequence[int]], overall: Sequence[int]
) -> list[float]:
    """Return each client's P under the paper's rule."""
    candidate = 0
    if len(candidates(announced)) > 1:
        told = added(expectations(announced, counts, overall) for counts in label_counts)
        candidate = best_candidate(told, len(label_counts[0]))
    return [own_probabilities(announced, counts, overall)[candidate] for counts in label_counts]


def plain_round(
    announced: Announced,
    label_counts: Sequence[Sequence[int]],
    probabilities: Sequence[float],
    tries: int,
    *,
    seed: int,
    server_round: int,
    first_round: int,
) -> Round:
    """Choose the clients of a round, with all clients connected."""
    clients = range(len(label_counts))
    wanted, fewest = announced["num-participants"], announced["min-cohort"]
    shares = [fixed_point(counts) for counts in label_counts]
    if announced["weighted"]:
        mean = mean_size(label_counts)
        shares = [weighted(counts, weight(sum(counts), mean)) for counts in label_counts]
    fixed = [with_square(row) for row in shares]
    # An agent decrypts fewer sums than half the clients.
    tries = max(1, min(tries, (len(clients) - 1) // 2))
    draws = [seeded_draws(seed, str(k), server_round, 1, tries)[0] for k in clients]
    yes = [[k for k in clients if draws[k][h] < probabilities[k]] for h in range(tries)]
    # The agent is in none of its sums, and each sum leaves out at least min-cohort clients.
    has_choice = tries > 1 and wanted <= len(clients) - max(2, fewest)
    others = list(clients)
    if has_choice:
        agents = generator(seed, "agents", first_round).permutation(len(clients))
        others.remove(agents[server_round - first_round])
    made: list[list[int]] = []
    for h, names in enumerate(yes):
        rng = generator(seed, "fill-or-trim", server_round, h)
        filled = _filled(names, others, wanted, rng)
        # No two tries differ by fewer than min-cohort.
        near = (earlier for earlier in made if len({*earlier} ^ {*filled}) < fewest)
        made.append(next(near, filled))
    if not has_choice:
        return Round(made, 0, made[0])
    sums = [added(fixed[k] for k in members) for members in made]
    aims = json.loads(announced["rule-settings"])
    found = scores(sums, aims.get("local_skew", 0.0), aims.get("target"))
    best = found.index(min(found))
    return Round(made, best, made[best])


def added(rows: Iterable[Sequence[int]]) -> list[int]:
    """Return the sum of some vectors."""
    return [sum(column) for column in zip(*rows, strict=True)]


def _filled(
    yes: Sequence[int], others: Sequence[int], wanted: int, rng: np.random.Generator
) -> list[int]:
    """Cut the volunteers down, or fill them up, to the wanted number."""
    volunteers, eligible = set(yes), set(others)
    willing = [k for k in yes if k in eligible]
    if len(willing) > wanted:
        return sorted(rng.choice(willing, wanted, replace=False).tolist())
    rest = [k for k in others if k not in volunteers]
    missing = min(wanted - len(willing), len(rest))
    return sorted([*willing, *rng.choice(rest, missing, replace=False).tolist()])
