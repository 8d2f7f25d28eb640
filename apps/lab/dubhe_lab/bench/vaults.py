"""The cost of each vault for a node, a committee member or agent, and the server.

One epoch of prices with pinned keys: the nodes get their keys, and one sum is formed and read. Only
what the vault does is timed, not the rule, the messages or the training.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import median
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dubhe_flwr.he.sealing import RecipientKey
from dubhe_flwr.he.signing import PinnedKeys, TrustedKeys
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.vaults import Seat, SumName
from dubhe_flwr.protocol.vaults.committee import Committee
from dubhe_flwr.protocol.vaults.keyed import KeyedVault
from dubhe_flwr.protocol.wire.announced import EPOCH_ID_BYTES, JoinRequest, VaultName
from dubhe_flwr.protocol.wire.codec import Message, encode, wire_size
from dubhe_flwr.protocol.wire.messages import (
    AppointRequest,
    OpenRequest,
    ParticipateRequest,
    RegisterRequest,
    RuleSum,
    SettleReply,
    SettleRequest,
)
from dubhe_flwr.protocol.wire.roster import Roster, alias_digest
from dubhe_flwr.protocol.wire.statements import join_statement
from dubhe_flwr.protocol.wire.terms import SETTLEMENT, Terms
from dubhe_lab.bench.measuring import BenchResults, environment, interleaved, summed_up
from dubhe_lab.experiments.options import CommandSettings, numbers, option, same
from dubhe_lab.experiments.settings import SelectionSettings
from dubhe_lab.report.table import Table

_EPOCH: Final = bytes(EPOCH_ID_BYTES)
_LABEL: Final = SumName(SETTLEMENT, 1)
_DISTINCT: Final = 10  # Paillier vectors that are encrypted; the others repeat them
_TIMES: Final = {"accept": 20, "hide": 20, "read": 20}
_BOUNDS: Final = {
    **{f"node_ms_committee_n{n}_c{c}": ("at most", 0.5) for n in (1000, 2000) for c in (10, 100)},
    **{f"member_ms_committee_n{n}_c{c}": ("at most", 100) for n in (1000, 2000) for c in (10, 100)},
}


@dataclass(frozen=True, kw_only=True)
class VaultsSettings(CommandSettings):
    """The settings of `bench_vaults`."""

    sizes: tuple[int, ...] = option(
        (1000, 2000), "Values of N, separated by commas.", parse=numbers, quick=(20, 40)
    )
    classes: tuple[int, ...] = option(
        (10, 100), "Values of C, separated by commas.", parse=numbers, quick=(3,)
    )
    rounds: int = option(5, "Passes over all measurements.", least=1, quick=1)
    key_bits: int = same(SelectionSettings, "key_bits", quick=512)


@dataclass(frozen=True)
class _Prepared:
    """What to time for a vault, and how many bytes a node or member sends and receives."""

    actions: Mapping[str, Callable[[], object]]
    num_bytes: Mapping[str, int]


def bench_vaults(settings: VaultsSettings) -> BenchResults:
    """Time hiding, adding up, opening and reading a sum, with each vault."""
    costs: dict[tuple[str, int, int], dict[str, float]] = {}
    timings = {}
    for number, num_classes in product(settings.sizes, settings.classes):
        prepared = {
            vault: _prepared(_terms(vault, number, num_classes, settings.key_bits), number)
            for vault in VaultName
        }
        actions = {
            f"{vault}, {name}": action
            for vault, of in prepared.items()
            for name, action in of.actions.items()
        }
        times = {name: _TIMES.get(name.split(", ")[1], 1) for name in actions}
        seconds = interleaved(actions, settings.rounds, times)
        for vault, of in prepared.items():
            ms = {name: 1e3 * median(seconds[f"{vault}, {name}"]) for name in of.actions}
            costs[vault, number, num_classes] = {**ms, **of.num_bytes}
        timings[f"n{number}_c{num_classes}"] = summed_up(seconds)
    return BenchResults(
        config={
            **settings.flat(),
            **environment(["dubhe-flwr", "cryptography", "phe", "gmpy2", "numpy"]),
        },
        figures={
            f"{name}_{vault}_n{number}_c{num_classes}": value
            for (vault, number, num_classes), cost in costs.items()
            for name, value in {
                "node_ms": cost["hide"] + cost["read"],
                "member_ms": cost.get("open", 0.0),
                "server_ms": cost["add up"],
            }.items()
            if value or name != "member_ms"
        },
        bounds=_BOUNDS if settings.key_bits == 2048 else {},
        measured=timings,
        tables=[_of_an_exchange(costs), _of_an_epoch(costs)],
    )


def _terms(vault: str, number: int, num_classes: int, key_bits: int) -> Terms:
    announced = Settings(
        num_participants=max(3, number // 50),
        equal_weights=True,
        key_bits=key_bits,
        max_registered=number,
    ).announced(seed=0)
    simulation_seed = 0 if vault == "plain" else None
    return Terms(replace(announced, vault=vault, simulation_seed=simulation_seed), num_classes)


def _prepared(terms: Terms, number: int) -> _Prepared:
    """Have a vault's nodes register and form a sum."""
    seats, roster = _nodes(terms.announced, number)
    vault, slots = terms.vault, terms.vault.fields[SETTLEMENT]
    numbers_of_node = np.full(slots.number, slots.largest // 2)
    public, proofs, num_bytes = b"", None, {}
    actions: dict[str, Callable[[], object]] = {}
    requests, members = [RegisterRequest(number)], []
    if isinstance(vault, KeyedVault):
        asked = AppointRequest(roster, tuple(range(vault.num_openers)))
        replies = [vault.appoint(seat, asked) for seat in seats[: vault.num_openers]]
        members = [member for _, member in replies if member is not None]
        actions["prepare"] = lambda: vault.appoint(seats[0], asked)
        requests = vault.delivered(asked, [reply for reply, _ in replies])
        public = requests[0].public
    if isinstance(vault, Committee):
        keys = [vault.accept(*each)[0] for each in zip(seats, requests, strict=True)]
        vectors = [vault.hide(own, _LABEL, numbers_of_node) for own in keys]
        total = vault.add_up(public, [SETTLEMENT], vectors)
        request = OpenRequest(1, np.packbits(np.ones(number, dtype=bool)).tobytes(), total)
        parts = [
            vault.release(member, own, _LABEL, request, None)
            for member, own in zip(members, keys, strict=False)
        ]
        actions["open"] = lambda: vault.release(members[0], keys[0], _LABEL, request, None)
        num_bytes = {"member down": _size(request), "member up": _size(parts[0])}
        total = vault.opened(total, request.covered, parts)
        proofs = vault.proofs(parts)[0]
    else:
        keys = [vault.accept(seats[0], requests[0])[0]]
        distinct = [vault.hide(keys[0], _LABEL, numbers_of_node) for _ in range(_DISTINCT)]
        vectors = (distinct * -(-number // _DISTINCT))[:number]
        total = vault.add_up(public, [SETTLEMENT], vectors)
    actions |= {
        "accept": lambda: vault.accept(seats[0], requests[0]),
        "hide": lambda: vault.hide(keys[0], _LABEL, numbers_of_node),
        "add up": lambda: vault.add_up(public, [SETTLEMENT], vectors),
        "read": lambda: vault.read(keys[0], _LABEL, total + (proofs or b""), number),
    }
    settle = SettleRequest(RuleSum(total, number, 1), ParticipateRequest(1, 10, 1), proofs)
    num_bytes |= {
        "keys": _size(requests[0]),
        "node up": _size(SettleReply(vectors[0])),
        "node down": _size(settle),
    }
    return _Prepared(actions, num_bytes)


def _nodes(announced: JoinRequest, number: int) -> tuple[Sequence[Seat], Roster]:
    """Return the nodes, which trust each other, and their roster."""
    signing_keys = [Ed25519PrivateKey.generate() for _ in range(number)]
    trusted = TrustedKeys(key.public_key() for key in signing_keys)
    recipients = [RecipientKey.generate() for _ in range(number)]
    pinned = [PinnedKeys(key, trusted) for key in signing_keys]
    seats = [Seat(_EPOCH, key.to_bytes(), own) for key, own in zip(recipients, pinned, strict=True)]
    public_keys = [key.public_bytes for key in recipients]
    aliases = [alias_digest(str(place)) for place in range(number)]
    signatures = [
        own.sign(join_statement(_EPOCH, announced, key, None, alias))
        for own, key, alias in zip(pinned, public_keys, aliases, strict=True)
    ]
    return seats, Roster(
        b"".join(public_keys),
        None,
        alias_digests=b"".join(aliases),
        signatures=b"".join(signatures),
    )


def _size(message: Message) -> int:
    return wire_size(encode(message))


def _of_an_exchange(costs: Mapping[tuple[str, int, int], Mapping[str, float]]) -> Table:
    return Table(
        "One sum over N nodes with pinned keys and C classes: median CPU time. A node hides its "
        "numbers and reads the sum, a member opens it, and the server adds up the vectors. Sizes "
        "count the fields, without the header.",
        ("", "node", "node, up / down", "member", "member, up / down", "server"),
        [
            (
                f"{vault}, N = {number}, C = {num_classes}",
                f"{cost['hide'] + cost['read']:.2f} ms",
                f"{cost['node up']:.0f} / {cost['node down']:.0f} B",
                f"{cost['open']:.1f} ms" if "open" in cost else "",
                f"{cost['member up']:.0f} / {cost['member down']:.0f} B" if "open" in cost else "",
                f"{cost['add up']:.1f} ms",
            )
            for (vault, number, num_classes), cost in costs.items()
        ],
    )


def _of_an_epoch(costs: Mapping[tuple[str, int, int], Mapping[str, float]]) -> Table:
    return Table(
        "Before the first sum of a registration period: a node accepts and checks its keys, and "
        "the first member or the agent checks who joined and seals a key for each node. Median CPU "
        "time.",
        ("", "node", "its keys", "first member or agent"),
        [
            (
                f"{vault}, N = {number}, C = {num_classes}",
                f"{cost['accept']:.2f} ms",
                f"{cost['keys']:.0f} B",
                f"{cost['prepare']:.0f} ms" if "prepare" in cost else "",
            )
            for (vault, number, num_classes), cost in costs.items()
        ],
    )
