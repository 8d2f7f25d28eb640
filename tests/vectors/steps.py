"""How session vectors are written: a node, its memory, and the requests in order."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vectors import reference as ref
from vectors.inputs import (
    AGENT,
    ANNOUNCED,
    COUNTS,
    EPOCH,
    MODULUS,
    NODE,
    SIGNER,
    TRUSTED,
    Case,
    P,
    all_typed,
    encrypted,
    expected,
    overall,
    sealed_key_case,
    sums_of,
)

OWNER: Final = {"alias": "1", "simulated": True, "min-key-bits": 512}
FRANK: Final = {"alias": "1", "min-key-bits": 512}
PINNED: Final = OWNER | {"signing-key": SIGNER.hex(), "trusted-keys": TRUSTED}

Announced = Mapping[str, Any]


def session(
    name: str, kept: Case | None, *steps: Case, owner: Mapping[str, Any] = OWNER, **more: Any
) -> Case:
    """Return a session of the node of row 1: its owner's settings, its memory, and the requests."""
    label_counts = more.pop("label_counts", COUNTS[1])
    case = {"name": name, "owner": dict(owner), "label-counts": label_counts} | more
    return case | ({} if kept is None else {"kept": kept}) | {"steps": list(steps)}


def joined(announced: Announced = ANNOUNCED, **more: Any) -> Case:
    """Return the memory of a node that joined."""
    return {
        "parameters": all_typed(announced), "label-counts": COUNTS[1], "epoch": EPOCH.hex(),
        "sequence": 2, "delivery-private-key": NODE.hex(), "registered": False,
    } | more  # fmt: skip


def registered(announced: Announced = ANNOUNCED, num_joined: int = len(COUNTS)) -> Case:
    """Return the memory of a node that registered."""
    key = {"modulus": MODULUS.hex(), "p": f"{P:064x}"} if announced["vault"] == "paillier" else {}
    return joined(announced, registered=True, **{"num-joined": num_joined}, **key)


def ask(
    stage: str, values: Mapping[str, Any], sequence: int = 3, /, epoch: bytes = EPOCH, **reply: Any
) -> Case:
    """Return a request, and what its reply `decrypts_to`, `holds`, or has as `sizes`."""
    step = {"request": all_typed(ref.header(epoch, stage, sequence) | ref.fields_of(values))}
    return step | {f"reply-{name.replace('_', '-')}": what for name, what in reply.items()}


def answers(step: Case, reply: Mapping[str, Any]) -> Case:
    """Return a request with its reply."""
    return step | {"reply": all_typed(ref.fields_of(reply))}


def refused(step: Case, error: str = "RefusedError") -> Case:
    """Return a request with its error."""
    return step | {"error": error}


def sum_request(
    announced: Announced = ANNOUNCED, exchange: int = 0, /, **changes: Any
) -> dict[str, Any]:
    """Return the sum over the nine nodes in an exchange, as nodes receive it, or a changed one."""
    field, total = "registration", overall(announced)
    if exchange and len(ref.candidates(announced)) > 1:
        field, total = "settlement", expected(announced)
    vector = encrypted(announced, field, changes.pop("total", total))
    return {"sums": vector, "num-clients": len(COUNTS), "exchange": exchange} | changes


def draw(announced: Announced = ANNOUNCED, exchange: int = 0, /, **changes: Any) -> dict[str, Any]:
    """Return a sum, and the request to draw for two rounds of three tries."""
    return sum_request(announced, exchange, **changes) | rounds_to_draw(2, 3)


def rounds_to_draw(rounds: int, tries: int, first: int = 1) -> dict[str, Any]:
    """Return the rounds for which a node draws."""
    return {"first-round": first, "num-rounds": rounds, "num-tries": tries}


def decisions(p: float, first: int = 1, rounds: int = 2, tries: int = 3) -> bytes:
    """Return the draws of the node of row 1."""
    rows = ref.keyed_draws(ref.keys_of_draws(7, "1", tries), first, rounds, tries)
    return ref.bits(x < p for row in rows for x in row)


def settled(p: float, finding: Any = b"") -> dict[str, Any]:
    """Return the reply of the node of row 1 once the rule is settled, with its draws."""
    return {"finding": finding, "draws.decisions": decisions(p), "draws.unwilling": b"\0"}


def first_draw(announced: Announced = ANNOUNCED, sequence: int = 3) -> Case:
    """Return a draw that tells a node the sum of the registrations."""
    p = ref.own_probabilities(announced, COUNTS[1], overall(announced))[0]
    reply = {"decisions": decisions(p, 9, 1, 1), "unwilling": b"\0"}
    asked = draw(announced) | rounds_to_draw(1, 1, first=9)
    return answers(ask("participate", asked, sequence), reply)


def after_a_draw(name: str, *steps: Case, announced: Announced = ANNOUNCED) -> Case:
    """Return a session of a node that has drawn, and so knows the sum of the registrations."""
    return session(name, registered(announced), first_draw(announced), *steps)


def refused_session(
    name: str, kept: Case | None, stage: str, values: Any, error: str = "RefusedError", **more: Any
) -> Case:
    """Return a session with a single request, which is refused."""
    return session(name, kept, refused(ask(stage, values), error), **more)


def choose(announced: Announced, *rounds: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return a request to choose among sums over some of the nine nodes, for each round."""
    sums = sums_of(*(clients for tries in rounds for clients in tries))
    vectors = [encrypted(announced, "distribution", each) for each in sums]
    return {"sums": b"".join(vectors), "num-tries": list(map(len, rounds))}


def delivered(**changes: Any) -> dict[str, Any]:
    """Return a request to register under the agent's key."""
    announced = changes.get("announced", ANNOUNCED)
    signer, signed = changes.pop("signer", None), changes.pop("signed", {})
    case = sealed_key_case(**changes)
    modulus = bytes.fromhex(case["modulus"])
    values = {
        "num-joined": len(COUNTS),
        "key.modulus": modulus,
        "key.agent-public-key": ref.public_half(AGENT),
        "key.sealed-key": bytes.fromhex(case["sealed"]),
    }
    if signer is None:
        return values
    what = {
        "epoch": EPOCH, "announced": announced, "agent": ref.public_half(AGENT),
        "modulus": modulus, "recipient": ref.public_half(NODE),
    }  # fmt: skip
    return values | {"key.signature": ref.sign(signer, ref.key_statement(**(what | signed)))}
