"""How a node enters an epoch: it joins, makes the key if it is the agent, and registers."""

import secrets
from dataclasses import replace

from dubhe_flwr.errors import MalformedMessageError, RefusedError, UntrustedError
from dubhe_flwr.he.public_key import PublicKey
from dubhe_flwr.he.sealing import RecipientKey, SealingContext, open_sealed, seal, sealed_bytes
from dubhe_flwr.he.secret_key import SecretKey, generate_secret_key
from dubhe_flwr.protocol.node.memory import (
    REMEMBERED_EPOCHS,
    Allowance,
    EpochKey,
    Keep,
    Membership,
    Memory,
    Registration,
)
from dubhe_flwr.protocol.node.policy import NodePolicy, read_label_counts
from dubhe_flwr.protocol.node.settle import own_of
from dubhe_flwr.protocol.rules.rule import Population
from dubhe_flwr.protocol.wire.envelope import EPOCH_ID_BYTES, Envelope
from dubhe_flwr.protocol.wire.messages import (
    PUBLIC_KEY_BYTES,
    DeliveredKey,
    JoinReply,
    JoinRequest,
    JoinStatus,
    KeygenReply,
    KeygenRequest,
    RegisterReply,
    RegisterRequest,
)
from dubhe_flwr.protocol.wire.statements import (
    check_recipients,
    join_statement,
    key_statement,
    split,
)
from dubhe_flwr.protocol.wire.terms import (
    DISTRIBUTION,
    LARGEST_WEIGHT,
    REGISTRATION,
    sealing_context,
)


def join(
    policy: NodePolicy,
    memory: Memory,
    allowance: Allowance,
    header: Envelope,
    request: JoinRequest,
) -> tuple[JoinReply, Memory]:
    """Begin an epoch: read the label counts anew and make a key for delivery."""
    found = read_label_counts(policy, request)
    status, counts = (found, None) if isinstance(found, JoinStatus) else (JoinStatus.JOINS, found)
    delivery_key = RecipientKey.generate()
    public_key = delivery_key.public_bytes
    signature = None
    if policy.pinned is not None:
        signature = policy.pinned.sign(join_statement(header.epoch, request, public_key))
    num_classes = None if counts is None else len(counts)
    examples = sum(counts) if request.weighted and counts is not None else None
    told = None if request.encrypted or policy.willing is not None else counts
    reply = JoinReply(int(status), policy.alias, num_classes, public_key, examples, signature, told)
    joined = None
    if counts is not None:
        account = memory.account.of(request, counts)
        joined = Membership(
            header.epoch,
            header.sequence,
            request,
            delivery_key.to_bytes(),
            counts,
            account,
        )
    epochs = (memory.epochs + header.epoch)[-REMEMBERED_EPOCHS * EPOCH_ID_BYTES :]
    account = memory.account if joined is None else joined.account
    return reply, Memory(header.sequence, epochs, allowance, joined, account)


def make_key(
    policy: NodePolicy, joined: Membership, request: KeygenRequest, keep: Keep
) -> KeygenReply:
    """Make a new key pair and seal its secret half to each node, this one included."""
    if joined.has_made_key:
        raise RefusedError("This node has made a key in that epoch.")
    announced, terms = joined.announced, joined.terms
    own = RecipientKey.from_bytes(joined.delivery_key).public_bytes
    recipients = list(split(request.public_keys, PUBLIC_KEY_BYTES))
    if own not in recipients or len(set(recipients)) < len(recipients):
        raise RefusedError("The recipients are not distinct, or lack the agent itself.")
    if not announced.min_cohort <= len(recipients) <= announced.max_clients:
        raise RefusedError(f"{len(recipients)} recipients are too few or too many.")
    if policy.pinned is not None:
        check_recipients(policy.pinned, joined.epoch, announced, request)
    secret_key = generate_secret_key(announced.key_bits)
    public_key = secret_key.public_key
    context = sealing_context(joined.epoch, own, terms.layout)
    sealed = b"".join(_seal_or_fill(secret_key, recipient, context) for recipient in recipients)
    signatures = None
    if policy.pinned is not None:
        signatures = b"".join(
            policy.pinned.sign(
                key_statement(joined.epoch, announced, terms.layout, own, public_key, recipient)
            )
            for recipient in recipients
        )
    keep(replace(joined, has_made_key=True))
    return KeygenReply(public_key.to_bytes(), sealed, signatures)


def register(
    policy: NodePolicy, joined: Membership, request: RegisterRequest, keep: Keep
) -> RegisterReply:
    """Encrypt what the rule adds up and the label distribution, with the key that is delivered."""
    registered, delivered = joined.registered, request.key
    if (delivered is not None) != joined.announced.encrypted:
        raise RefusedError("A key is delivered if and only if the epoch is encrypted.")
    # A second agent may be asked, but only before anything is known under the first one's key.
    if registered is not None and (
        registered.reading is not None
        or registered.has_refused
        or delivered is None
        or registered.key is None
        or delivered.modulus == registered.key.modulus
    ):
        raise RefusedError("This node has registered in that epoch before.")
    if (request.mean_examples is not None) != joined.announced.weighted:
        raise RefusedError("The mean number of samples is told if and only if nodes count by it.")
    key = None if delivered is None else _open(policy, joined, delivered)
    weight = _weight(joined, request.mean_examples)
    registered = Registration(key, weight, num_joined=request.num_joined)
    terms, announced = joined.terms, joined.announced
    population = Population(
        terms.frame,
        request.num_joined,
        announced.num_participants,
        announced.num_volunteers(request.num_joined),
    )
    own, cipher = own_of(policy, joined, registered, exchange=0), joined.cipher(registered)
    reply = RegisterReply(
        cipher.encrypt(REGISTRATION, terms.rule.contribution(own, population)),
        cipher.encrypt(DISTRIBUTION, terms.weighted_distribution(own))
        if announced.has_agent
        else None,
    )
    keep(replace(joined, registered=registered, account=joined.account.entered()))
    return reply


def _weight(joined: Membership, mean_examples: float | None) -> float:
    """Return how much the node counts, relative to the mean and within bounds."""
    if mean_examples is None:
        return 1.0
    weight = sum(joined.label_counts) / mean_examples
    return min(max(weight, 1.0 / LARGEST_WEIGHT), LARGEST_WEIGHT)


def _open(policy: NodePolicy, joined: Membership, delivered: DeliveredKey) -> EpochKey:
    """Open the sealed key; with pinned keys, only one that a trusted agent made for this node."""
    announced, layout = joined.announced, joined.terms.layout
    public_key = PublicKey.from_bytes(delivered.modulus, announced.key_bits)
    delivery_key, agent = RecipientKey.from_bytes(joined.delivery_key), delivered.agent_public_key
    if policy.pinned is not None:
        statement = key_statement(
            joined.epoch, announced, layout, agent, public_key, delivery_key.public_bytes
        )
        try:
            policy.pinned.trusted.signer(statement, delivered.signature)
        except UntrustedError as error:
            raise UntrustedError(
                f"No trusted agent made this key for this node, epoch and parameters: {error}"
            ) from None
    context = sealing_context(joined.epoch, agent, layout)
    secret_key = open_sealed(delivered.sealed_key, delivery_key, context, public_key)
    return EpochKey(delivered.modulus, secret_key.to_bytes())


def _seal_or_fill(secret_key: SecretKey, recipient: bytes, context: SealingContext) -> bytes:
    """Seal the key; who sent an unusable public key gets what never opens, and drops out alone."""
    try:
        return seal(secret_key, recipient, context)
    except MalformedMessageError:
        return secrets.token_bytes(sealed_bytes(secret_key.public_key.bits))
