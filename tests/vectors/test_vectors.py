"""The package does what the vectors say; authors of another client have the same vectors."""

import json
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from protocol.nodes import only_charged
from vectors import inputs, make, reference
from vectors.inputs import Case, untyped

from dubhe_flwr import errors
from dubhe_flwr.core.codebook import Codebook
from dubhe_flwr.core.determination import scores_of
from dubhe_flwr.core.distribution import fixed_point_distribution, with_square
from dubhe_flwr.core.randomness import simulated_draws
from dubhe_flwr.core.registration import dominating_category, participation_probability
from dubhe_flwr.core.search import best_candidate
from dubhe_flwr.he.layout import Layout
from dubhe_flwr.he.public_key import PublicKey
from dubhe_flwr.he.sealing import RecipientKey, sealed_bytes
from dubhe_flwr.he.secret_key import SecretKey
from dubhe_flwr.he.signing import PinnedKeys
from dubhe_flwr.protocol import Fields
from dubhe_flwr.protocol.node.memory import (
    Allowance,
    LabelBudget,
    Membership,
    Memory,
    Registration,
)
from dubhe_flwr.protocol.node.policy import NodePolicy
from dubhe_flwr.protocol.node.session import ClientSession
from dubhe_flwr.protocol.rules.rule import Frame, Own, Population, Settled
from dubhe_flwr.protocol.vaults import SumName
from dubhe_flwr.protocol.vaults.committee import Committee, _bound
from dubhe_flwr.protocol.vaults.paillier import Paillier
from dubhe_flwr.protocol.vaults.vault import Member
from dubhe_flwr.protocol.wire.announced import JoinRequest
from dubhe_flwr.protocol.wire.codec import decode
from dubhe_flwr.protocol.wire.envelope import (
    PROTOCOL_VERSION,
    Envelope,
    read_reply,
    read_request,
)
from dubhe_flwr.protocol.wire.messages import REPLIES, REQUESTS, OpenRequest, RegisterRequest
from dubhe_flwr.protocol.wire.roster import alias_digest
from dubhe_flwr.protocol.wire.statements import join_statement, parameters_digest
from dubhe_flwr.protocol.wire.terms import Terms, terms_of
from dubhe_flwr.rules import Paper


def cases(*topics: str) -> pytest.MarkDecorator:
    """Run a test on each vector of the given files."""
    found = [case for topic in topics for case in inputs.cases_of(topic)]
    return pytest.mark.parametrize("case", found, ids=lambda case: str(case["name"]))


def announced(told: Case) -> JoinRequest:
    """Return the announced parameters of an epoch."""
    return decode(JoinRequest, untyped(told))


def terms(case: Case) -> Terms:
    """Return the terms of an epoch, with the rule's number of classes."""
    told = announced(case["parameters"])
    return terms_of(told, max(json.loads(told.rule_settings)["reference_set"]))


def layout_of(case: Case) -> Layout:
    """Return how the vectors of an epoch are packed."""
    vault = terms(case).vault
    assert isinstance(vault, Paillier)
    return vault.layout


def test_the_files_are_what_the_reference_makes() -> None:
    """A change to a vector or to the format has to change both."""
    assert reference.VERSION == PROTOCOL_VERSION
    files = inputs.FOLDER.glob("*.json")
    written = {path.name: path.read_text(encoding="utf-8") for path in files}
    assert written == dict(make.files())


def test_the_second_implementation_shares_no_code_with_the_package() -> None:
    """Only this module imports the package, and the one that records federations with prices."""
    sources = {path.stem: path.read_text("utf-8") for path in inputs.FOLDER.glob("*.py")}
    importing = {
        name for name, text in sources.items() if "dubhe_flwr" in text or "from protocol" in text
    }
    assert importing == {"prices", "test_vectors"}


@cases("categories")
def test_a_category_and_its_slot(case: Case) -> None:
    """Algorithm 1, and the rank of a set of classes among all sets."""
    codebook = Codebook(case["reference-set"])
    sizes = sorted(case["reference-set"])[:-1]
    thresholds = dict(zip(sizes, case["thresholds"], strict=True))
    category = dominating_category(case["label-counts"], codebook, thresholds)
    assert list(category) == case["category"]
    assert codebook.rank(category) == case["slot"]
    assert codebook.length == case["length"]


@cases("distributions")
def test_a_distribution_in_fixed_point(case: Case) -> None:
    """The shares sum to 2**20, by the largest remainder, and the squared norm is rounded."""
    shares = fixed_point_distribution(case["label-counts"])
    assert with_square(shares).tolist() == case["shares-and-square"]


@cases("layouts")
def test_a_layout(case: Case) -> None:
    """The announced parameters fix widths and numbers of ciphertexts."""
    rule, layout = terms(case).rule, layout_of(case)
    assert isinstance(rule, Paper)
    assert [list(sigma.values()) for sigma in rule.candidates] == case["candidates"]
    assert [
        {
            "name": name,
            "slots": slots.number,
            "max-value": slots.largest,
            "slot-bits": layout.slot_bits(name),
            "slots-per-ciphertext": layout.slots_per_ciphertext(name),
            "ciphertexts": layout.num_ciphertexts(name),
        }
        for name, slots in layout.fields.items()
    ] == case["fields"]


@cases("packings")
def test_counters_in_plaintexts(case: Case) -> None:
    """One client's counters pack, and sums unpack."""
    layout, plaintexts = layout_of(case), [int(text, 16) for text in case["plaintexts"]]
    unpacked = layout.unpack(case["field"], plaintexts, case["num-clients"])
    assert unpacked.tolist() == case["values"]
    if case["num-clients"] == 1:
        packed = layout.pack(case["field"], np.array(case["values"]))
        assert [f"{plaintext:x}" for plaintext in packed] == case["plaintexts"]


@cases("messages")
def test_a_message(case: Case) -> None:
    """Values become these fields, of these types, and turn back into the same values."""
    told, header = untyped(case["fields"]), Envelope(inputs.EPOCH, case["stage"], case["sequence"])
    if case["kind"] == "request":
        opened, body = read_request(told)
        assert opened == header
    else:
        body = read_reply(header, told)
    assert type(body) is (REQUESTS if case["kind"] == "request" else REPLIES)[case["stage"]]
    for name, what in untyped(case["values"]).items():
        found: Any = reduce(getattr, name.replace("-", "_").split("."), body)
        assert found == (tuple(what) if isinstance(what, list) else what)
    fields = header.seal(body)
    assert fields == told
    assert {name: type(what) for name, what in fields.items()} == {
        name: type(what) for name, what in told.items()
    }


@cases("ciphertexts")
def test_a_ciphertext(case: Case) -> None:
    """The holder of a prime decrypts it."""
    public_key = PublicKey.from_bytes(bytes.fromhex(case["modulus"]), 512)
    key = SecretKey.from_bytes(bytes.fromhex(case["p"]), public_key)
    plaintexts, vector = [int(text, 16) for text in case["plaintexts"]], case["vector"]
    # Encrypting again gives another ciphertext of the same plaintext.
    again = key.encrypt(plaintexts)
    assert again.hex() != vector
    assert key.decrypt(bytes.fromhex(vector)) == key.decrypt(again) == plaintexts


@cases("committees")
def test_a_sum_that_a_committee_opens(case: Case) -> None:
    """Nodes send these vectors, members these parts of the total, and the sum is as given."""
    told = announced(case["parameters"])
    vault = terms_of(told, 4).vault
    assert isinstance(vault, Committee)
    made, state = (bytes.fromhex(case[name]) for name in ("made-key", "state"))
    request = RegisterRequest(3, state=bytes.fromhex(case["sealed-state"]))
    assert _bound(made, state).hex() == case["group-key"]
    goes_on = Committee(replace(told, continues=inputs.EPOCH), vault.fields)
    assert goes_on.opened_state(request, made) == state
    label = SumName(case["field"], case["number"])
    group = bytes.fromhex(case["group-key"])
    by_node = [[bytes.fromhex(key) for key in row] for row in case["pad-keys"]]
    keys = [group + b"".join(row) for row in by_node]
    sent = [
        vault.hide(own, label, np.array(row)) for own, row in zip(keys, case["values"], strict=True)
    ]
    assert [vector.hex() for vector in sent] == case["sent"]
    total = vault.add_up(b"", [label.field], sent)
    assert total.hex() == case["total"]
    asked = OpenRequest(label.number, bytes.fromhex(case["covered"]), total)
    parts = [
        vault.release(
            Member(place, bytes(32), b"".join(row[place] for row in by_node), bytes(32)),
            keys[0],
            label,
            asked,
            np.array(noise),
        )
        for place, noise in enumerate(case["noise"])
    ]
    assert [part.sealed.hex() for part in parts] == case["parts"]
    proofs, opened = vault.proofs(parts), vault.opened(total, asked.covered, parts)
    assert [each.hex() for each in proofs] == ["".join(row) for row in case["proofs"]]
    for own, proof in zip(keys, proofs, strict=True):
        assert vault.read(own, label, opened + proof, 3).tolist() == case["sum"]
        then = bytes.fromhex(case["next-group-key"]) + own[len(group) :]
        assert vault.keys_after(own, opened) == then


@cases("sealed_keys")
def test_a_sealed_key(case: Case) -> None:
    """A sealed key opens for its recipient, in its context."""
    public_key = PublicKey.from_bytes(bytes.fromhex(case["modulus"]), 512)
    recipient = RecipientKey.from_bytes(bytes.fromhex(case["recipient-private-key"]))
    info = bytes.fromhex(case["info"])
    assert recipient.public_bytes.hex() == case["recipient-public-key"]
    sealed = bytes.fromhex(case["sealed"])
    opened = SecretKey.from_bytes(recipient.decrypt(sealed, info), public_key)
    assert opened.to_bytes().hex() == case["p"]
    assert len(sealed) == sealed_bytes(512)


@cases("signatures")
def test_statements_and_signatures(case: Case) -> None:
    """Statements are built the same way, and Ed25519 signatures are deterministic."""
    told, epoch = announced(case["parameters"]), bytes.fromhex(case["epoch"])
    assert parameters_digest(told).hex() == case["parameters-digest"]
    signing_key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(case["signing-key"]))
    keys = PinnedKeys(signing_key, [signing_key.public_key()])
    recipient = bytes.fromhex(case["public-key"])
    join = join_statement(epoch, told, recipient, case["num-examples"], alias_digest(case["alias"]))
    continued = parameters_digest(replace(told, continues=inputs.EPOCH))
    assert continued.hex() == case["continued-parameters-digest"]
    vault, request = terms(case).vault, decode(RegisterRequest, untyped(case["register"]))
    assert isinstance(vault, Paillier)
    appointment = vault.statement(epoch, request, recipient, case["place"])
    for name, statement in (("join", join), ("appointment", appointment)):
        assert statement.hex() == case[f"{name}-statement"]
        assert keys.sign(statement).hex() == case[f"{name}-signature"]
        assert keys.trusted.rank(statement, bytes.fromhex(case[f"{name}-signature"])) == 0


@cases("draws")
def test_simulated_draws(case: Case) -> None:
    """The numbers agree to the last bit."""
    rounds, tries = (case["first-round"], case["num-rounds"]), case["num-tries"]
    drawn = simulated_draws(case["seed"], case["alias"], *rounds, tries)
    assert drawn.tolist() == case["numbers"]
    assert np.packbits(drawn < 0.5).tobytes().hex() == case["below-one-half"]


@cases("probabilities")
def test_the_probability_of_each_category(case: Case) -> None:
    """Eq. 6, to the last bit; a node in an empty category has probability K / N."""
    overall, wanted = np.array(case["overall-registry"]), case["num-participants"]
    found = participation_probability(overall, wanted)
    population = Population(Frame(2, 1000), overall.sum(), wanted, overall.sum())
    counts = [9, 1], [1, 9], [5, 5]
    for row, probability, of_all in zip(counts, case["probabilities"], found, strict=True):
        settled = Paper((1, 2), {1: 0.7}).settle(Own(np.array(row)), population, None, overall)
        assert isinstance(settled, Settled)
        assert settled.probability == probability
        assert of_all in {probability, 0.0}


@cases("choices")
def test_what_is_chosen(case: Case) -> None:
    """The best try, or the best candidate."""
    if "expectations" in case:
        assert best_candidate(case["expectations"]) == case["chosen"]
        return
    scores = scores_of(case["sums"], case["local-skew"], case["target"])
    assert scores.tolist() == case["scores"]
    assert np.argmin(scores) == case["chosen"]


def policy(case: Case) -> NodePolicy:
    """Return the settings of a node's owner."""
    owner: Any = {name.replace("-", "_"): what for name, what in case["owner"].items()}
    away = owner.pop("unwilling_rounds", [])
    if "signing_key" in owner:
        keys = map(bytes.fromhex, owner.pop("trusted_keys"))
        owner["pinned"] = PinnedKeys(
            Ed25519PrivateKey.from_private_bytes(bytes.fromhex(owner.pop("signing_key"))),
            map(Ed25519PublicKey.from_public_bytes, keys),
        )
    willing = (lambda r: r not in away) if away else None
    return NodePolicy(label_counts=lambda: case["label-counts"], willing=willing, **owner)


def session(case: Case) -> ClientSession:
    """Return a node with the memory that the vector describes."""
    if "kept" not in case:
        return ClientSession(policy(case))
    kept, registered = case["kept"], None
    if kept["registered"]:
        keys = bytes.fromhex(kept.get("modulus", "") + kept.get("p", ""))
        number = kept["num-joined"]
        registered = Registration(keys, num_joined=number, num_registered=number)
    joined = Membership(
        bytes.fromhex(kept["epoch"]),
        kept["sequence"],
        announced(kept["parameters"]),
        bytes.fromhex(kept["delivery-private-key"]),
        sum(kept["label-counts"]),
        LabelBudget(tuple(kept["label-counts"])),
        registered=registered,
    )
    memory = Memory(kept["sequence"], joined.epoch, Allowance(), joined, joined.budget)
    return ClientSession(policy(case), memory)


def check_reply(node: ClientSession, step: Case, reply: Fields) -> None:
    """Compare a reply with the vector."""
    request = untyped(step["request"])
    header = {name: reply.pop(name) for name in ("epoch", "stage", "sequence", "version")}
    assert header == {name: request[name] for name in header}
    if "reply" in step:
        assert reply == untyped(step["reply"])
    for name, what in untyped(step.get("reply-holds", {})).items():
        assert reply[name] == what
    for name, size in step.get("reply-sizes", {}).items():
        assert len(reply[name]) == size  # type: ignore[arg-type]  # bytes
    for name, numbers in step.get("reply-decrypts-to", {}).items():
        joined: Any = node.memory.joined
        vector: Any = reply[name]
        field = "settlement" if name == "contribution" else name
        label = SumName(field, 0 if field == name else 1)
        found = joined.terms.vault.read(joined.registered.keys, label, vector, 1)
        assert found.tolist() == numbers


@cases("joins", "sessions", "prices_sessions", "bad_sessions")
def test_what_a_node_answers(case: Case) -> None:
    """Replies are, hold or decrypt to what they should; a refusal costs only the decryptions."""
    node = session(case)
    for step in case["steps"]:
        request = untyped(step["request"])
        if "error" not in step:
            check_reply(node, step, node.handle(request))
            continue
        before = node.memory
        with pytest.raises(errors.DubheError) as refused:
            node.handle(request)
        assert refused.type.__name__ == step["error"]
        assert only_charged(before, node.memory, request)


@cases("bad_messages")
def test_what_is_no_message(case: Case) -> None:
    """The message is refused with an error of this type."""
    expected = Envelope(inputs.EPOCH, case["stage"], case["sequence"])
    read = read_request if case["kind"] == "request" else partial(read_reply, expected)
    with pytest.raises(errors.DubheError) as refused:
        read(untyped(case["fields"]))
    assert refused.type.__name__ == case["error"]
