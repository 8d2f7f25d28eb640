"""A node's part in starting an epoch: it joins, becomes an opener if asked, and registers."""

import secrets
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.he.sealing import RecipientKey
from dubhe_flwr.protocol.node.memory import (
    REMEMBERED_EPOCHS,
    Keep,
    Membership,
    Memory,
    Registration,
)
from dubhe_flwr.protocol.node.policy import NodePolicy, read_label_counts
from dubhe_flwr.protocol.node.settle import own_of, share_of_budget
from dubhe_flwr.protocol.vaults import Seat, SumName
from dubhe_flwr.protocol.vaults.vault import Member
from dubhe_flwr.protocol.wire.announced import EPOCH_ID_BYTES, JoinRequest, JoinStatus
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import (
    AppointReply,
    AppointRequest,
    JoinReply,
    RegisterReply,
    RegisterRequest,
)
from dubhe_flwr.protocol.wire.roster import PUBLIC_KEY_BYTES, alias_digest, split, weight_of
from dubhe_flwr.protocol.wire.statements import join_statement
from dubhe_flwr.protocol.wire.terms import DISTRIBUTION, REGISTRATION

_FLOAT: Final = np.dtype(">f8")
_LASTING: Final = b"dubhe lasting noise"
_SEED_BYTES: Final = 16
_ROUNDING: Final = 1e-9  # platforms may differ by less


def join(
    policy: NodePolicy, memory: Memory, header: Envelope, request: JoinRequest
) -> tuple[JoinReply, Memory]:
    """Begin an epoch: read the label counts again and make a key for sealed delivery."""
    found = read_label_counts(policy, request)
    status, counts = (found, None) if isinstance(found, JoinStatus) else (JoinStatus.JOINS, found)
    delivery_key = RecipientKey.generate()
    public_key = delivery_key.public_bytes
    examples = sum(counts) if request.weighted and counts is not None else None
    signature = None
    if policy.pinned is not None and counts is not None:
        statement = join_statement(
            header.epoch, request, public_key, examples, alias_digest(policy.alias)
        )
        signature = policy.pinned.sign(statement)
    num_classes = None if counts is None else len(counts)
    told = counts if request.in_the_clear and policy.willing is None else None
    reply = JoinReply(int(status), policy.alias, num_classes, public_key, examples, signature, told)
    # The seed of a node with pinned keys follows from its signing key. So it outlasts a run also
    # without `state_dir`: a server that could start new runs to get new noise would average it.
    seed = b"" if policy.pinned is None else policy.pinned.secret(_LASTING)
    seed = seed or memory.budget.lasting_seed or secrets.token_bytes(_SEED_BYTES)
    memory = replace(memory, budget=replace(memory.budget, lasting_seed=seed))
    return reply, after_join(memory, header, request, counts, delivery_key.to_bytes())


def after_join(
    memory: Memory,
    header: Envelope,
    request: JoinRequest,
    counts: tuple[int, ...] | None,
    delivery_key: bytes = b"",
) -> Memory:
    """Return the memory of a node that joins with these label counts, or sits out if None.

    A node of a simulation in the clear needs no delivery key, since nothing is sealed for it.
    """
    epochs = (memory.epochs + header.epoch)[-REMEMBERED_EPOCHS * EPOCH_ID_BYTES :]
    joined, budget, earlier = None, memory.budget, memory.earlier(request)
    if counts is not None:
        budget = budget.of(counts)
        joined = Membership(
            header.epoch,
            header.sequence,
            request,
            delivery_key,
            sum(counts),
            budget,
            earlier=earlier,
        )
    return Memory(header.sequence, epochs, memory.allowance, joined, budget)


def appoint(
    policy: NodePolicy, joined: Membership, request: AppointRequest, keep: Keep
) -> AppointReply:
    """Become an opener, unless the node has registered already.

    Checking who joined takes a while, so a node does it once in an epoch.
    """
    if joined.registered is not None:
        raise RefusedError("This node has already registered in this registration period.")
    if joined.was_appointed:
        raise RefusedError("This node was already asked to be an opener of this period.")
    joined = replace(joined, was_appointed=True)
    keep(joined)
    reply, member = joined.terms.vault.appoint(_seat(policy, joined), request)
    keep(replace(joined, member=member))
    return reply


def register(
    policy: NodePolicy, joined: Membership, request: RegisterRequest, keep: Keep
) -> RegisterReply:
    """Register: hide the registration and the label distribution with the delivered key."""
    terms, announced = joined.terms, joined.announced
    if joined.registered is not None:
        raise RefusedError("This node has already registered in this registration period.")
    if (request.mean_examples is not None) != announced.weighted:
        raise RefusedError("The mean number of samples belongs to weighted registrations only.")
    seat = _seat(policy, joined)
    keys, passed_on = terms.vault.accept(seat, request)
    state = _last_state(joined, passed_on)
    weight = weight_of(joined.num_examples, request.mean_examples)
    num_joined = request.num_joined
    registered = Registration(keys, weight, num_joined, num_registered=num_joined, state=state)
    population = terms.population(num_joined, num_joined)
    own = own_of(policy, joined, registered, number=0)
    if state is None:
        numbers = terms.rule.contribution(own, population)
    else:
        numbers = terms.rule.continued(own, population, state)
    hide = partial(terms.vault.hide, keys)
    reply = RegisterReply(
        hide(SumName(REGISTRATION), numbers),
        hide(SumName(DISTRIBUTION), terms.weighted_distribution(own))
        if announced.has_agent
        else None,
    )
    budget = joined.budget.charged(share_of_budget(joined, registered))
    member = _member_of(joined, seat, request)
    keep(replace(joined, registered=registered, budget=budget, member=member))
    return reply


def _member_of(joined: Membership, seat: Seat, request: RegisterRequest) -> Member | None:
    """Return the node's place in the committee under which it registers, if it has one.

    A server may show it another committee or roster than the one for which it was appointed. It
    must then open no sum: two members' parts of a sum could share a nonce.
    """
    member = joined.member
    if member is None:
        return None
    own = list(split(request.opener_keys, PUBLIC_KEY_BYTES))[member.place]
    fits = (member.roster, seat.delivery_key.public_bytes) == (request.roster, own)
    return member if fits else None


def _last_state(joined: Membership, passed_on: bytes) -> tuple[float, ...] | None:
    """Return the rule's last state, or None; refuse it if the node remembers a different one."""
    if joined.announced.continues is None:
        return None
    if len(passed_on) % _FLOAT.itemsize:
        raise RefusedError("The state of the last registration period is not readable.")
    told, own = np.frombuffer(passed_on, _FLOAT), np.array(joined.earlier)
    if own.size and not (told.shape == own.shape and np.all(np.abs(told - own) <= _ROUNDING)):
        raise RefusedError("The state of the last registration period is not what this node knows.")
    return tuple(told.tolist())


def _seat(policy: NodePolicy, joined: Membership) -> Seat:
    """Return what the node brings to the vault of the epoch."""
    state = np.array(joined.earlier, _FLOAT).tobytes()
    return Seat(joined.epoch, joined.delivery_key, policy.pinned, state)
