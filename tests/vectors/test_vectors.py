"""The package does what the test vectors of the wire format say, and they are what they were.

The same files are for whoever writes a client in another language.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from protocol.node import only_charged
from vectors import inputs, make, reference

from dubhe_flwr import errors
from dubhe_flwr.core import (
    Codebook,
    best_candidate,
    best_groups,
    dominating_category,
    expected_volunteers,
    fixed_point_distribution,
    group_sizes,
    participation_probability,
    scaled_scores,
    seeded_draws,
    with_square,
)
from dubhe_flwr.he import (
    PinnedKeys,
    PublicKey,
    RecipientKey,
    SealingContext,
    SecretKey,
    TrustedKeys,
    open_sealed,
)
from dubhe_flwr.he.sealing import sealed_bytes
from dubhe_flwr.protocol import ClientSession, NodePolicy, SessionState, decode
from dubhe_flwr.protocol.agent import best_selections
from dubhe_flwr.protocol.envelope import PROTOCOL_VERSION, Envelope, open_reply, open_request
from dubhe_flwr.protocol.messages import REPLIES, REQUESTS, JoinRequest
from dubhe_flwr.protocol.parameters import PROTOCOL_TAG, epoch_parameters
from dubhe_flwr.protocol.statements import (
    bundle_statement,
    join_statement,
    parameters_digest,
    recipients_digest,
)

Case = dict[str, Any]
FOLDER = Path(__file__).parent


def cases(topic: str) -> pytest.MarkDecorator:
    """Run a test on each vector of a file."""
    content = json.loads((FOLDER / f"{topic}.json").read_text(encoding="utf-8"))
    assert content["protocol-version"] == PROTOCOL_VERSION
    return pytest.mark.parametrize("case", content["cases"], ids=lambda case: str(case["name"]))


def value(told: Case) -> Any:
    """Return a value that is told with its type."""
    ((kind, what),) = told.items()
    return bytes.fromhex(what) if kind == "bytes" else what


def values(told: Case) -> Case:
    """Return named values."""
    return {name: value(what) for name, what in told.items()}


def announced(told: Case) -> JoinRequest:
    """Return the parameters of an epoch."""
    return decode(JoinRequest, reference.fields_of(values(told)))


def error(case: Case) -> type[Exception]:
    """Return the class of the error that a bad vector leads to."""
    kind = getattr(errors, case["error"])
    assert issubclass(kind, errors.DubheError)
    return kind  # type: ignore[no-any-return]


def secret_key(case: Case) -> SecretKey:
    """Return the Paillier key of a vector."""
    public_key = PublicKey.from_bytes(bytes.fromhex(case["modulus"]), 512)
    return SecretKey.from_bytes(bytes.fromhex(case["p"]), public_key)


def test_the_files_are_what_the_reference_makes() -> None:
    """Who changes a vector, or the format, has to change both; there are enough of them."""
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert written == dict(make.files())
    count = {name: len(json.loads(text)["cases"]) for name, text in written.items()}
    bad = sum(number for name, number in count.items() if name.startswith("bad_"))
    assert bad >= 40
    assert sum(count.values()) - bad >= 60


@cases("categories")
def test_a_category_and_its_slot(case: Case) -> None:
    """Algorithm 1, and the rank of a class set among all."""
    codebook = Codebook(case["reference-set"])
    sizes = sorted(case["reference-set"])[:-1]
    thresholds = dict(zip(sizes, case["thresholds"], strict=True))
    category = dominating_category(case["label-counts"], codebook, thresholds)
    assert list(category) == case["category"]
    assert codebook.rank(category) == case["slot"]
    assert list(codebook.unrank(case["slot"])) == case["category"]
    assert codebook.length == case["length"]


@cases("distributions")
def test_a_distribution_in_fixed_point(case: Case) -> None:
    """Shares of sum 2**20 by the largest remainder, and the rounded squared norm."""
    shares = fixed_point_distribution(case["label-counts"])
    assert with_square(shares).tolist() == case["shares-and-square"]
    assert shares.sum() == 2**20


@cases("layouts")
def test_a_layout(case: Case) -> None:
    """Widths, numbers of ciphertexts and digest follow from the announced parameters."""
    layout = epoch_parameters(announced(case["parameters"])).layout
    assert [
        {
            "name": field.name,
            "slots": field.num_slots,
            "max-value": field.max_value,
            "slot-bits": layout.slot_bits(field.name),
            "slots-per-ciphertext": layout.slots_per_ciphertext(field.name),
            "ciphertexts": layout.num_ciphertexts(field.name),
        }
        for field in layout.fields
    ] == case["fields"]
    assert layout.digest().hex() == case["digest"]


@cases("packings")
def test_counters_in_plaintexts(case: Case) -> None:
    """One client's counters pack, and sums unpack."""
    layout = epoch_parameters(announced(case["parameters"])).layout
    plaintexts = [int(text, 16) for text in case["plaintexts"]]
    unpacked = layout.unpack(case["field"], plaintexts, case["num-clients"])
    assert unpacked.tolist() == case["values"]
    if case["num-clients"] == 1:
        assert layout.pack(case["field"], np.array(case["values"])) == plaintexts


@cases("messages")
def test_a_message(case: Case) -> None:
    """Values become these fields, of these types, and come back from them."""
    bodies: Mapping[str, Any] = REQUESTS if case["kind"] == "request" else REPLIES
    attributes = {
        name.replace("-", "_"): tuple(what) if isinstance(what, list) else what
        for name, what in values(case["values"]).items()
    }
    body = bodies[case["stage"]](**attributes)
    header = Envelope(inputs.EPOCH, case["stage"], case["sequence"])
    fields = header.seal(body)
    assert fields == values(case["fields"])
    assert {name: type(what) for name, what in fields.items()} == {
        name: type(what) for name, what in values(case["fields"]).items()
    }
    if case["kind"] == "request":
        assert open_request(fields) == (header, body)
    else:
        assert open_reply(fields, header) == body


@cases("ciphertexts")
def test_a_ciphertext(case: Case) -> None:
    """The holder of a prime decrypts it."""
    key, vector = secret_key(case), bytes.fromhex(case["vector"])
    assert key.decrypt(vector) == [int(text, 16) for text in case["plaintexts"]]
    # What is encrypted anew is another ciphertext of the same.
    again = key.encrypt([int(text, 16) for text in case["plaintexts"]])
    assert again != vector
    assert key.decrypt(again) == key.decrypt(vector)


def opened(case: Case) -> SecretKey:
    """Return the key in a sealed delivery."""
    public_key = PublicKey.from_bytes(bytes.fromhex(case["modulus"]), 512)
    context = SealingContext(
        PROTOCOL_TAG,
        bytes.fromhex(case["epoch"]),
        bytes.fromhex(case["agent-public-key"]),
        public_key.digest(),
        bytes.fromhex(case["layout-digest"]),
    )
    recipient = RecipientKey.from_bytes(bytes.fromhex(case["recipient-private-key"]))
    if "error" not in case:
        assert context.info(recipient.public_bytes).hex() == case["info"]
        assert recipient.public_bytes.hex() == case["recipient-public-key"]
    return open_sealed(bytes.fromhex(case["sealed"]), recipient, context, public_key)


@cases("sealed_keys")
def test_a_sealed_key(case: Case) -> None:
    """It opens for its recipient, in its context."""
    assert opened(case).to_bytes().hex() == case["p"]
    assert len(case["sealed"]) == 2 * sealed_bytes(512)


@cases("signatures")
def test_statements_and_signatures(case: Case) -> None:
    """What is signed is put together the same way, and Ed25519 repeats itself."""
    told, epoch = announced(case["parameters"]), bytes.fromhex(case["epoch"])
    assert parameters_digest(told).hex() == case["parameters-digest"]
    signing_key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(case["signing-key"]))
    keys = PinnedKeys(signing_key, [signing_key.public_key()])
    join = join_statement(epoch, told, bytes.fromhex(case["public-key"]))
    bundle = bundle_statement(
        epoch,
        told,
        bytes.fromhex(case["agent-public-key"]),
        bytes.fromhex(case["modulus"]),
        recipients_digest(bytes.fromhex(case["recipients"])),
    )
    for name, statement in (("join", join), ("bundle", bundle)):
        assert statement.hex() == case[f"{name}-statement"]
        assert keys.sign(statement).hex() == case[f"{name}-signature"]
        signer = keys.trusted.signer(statement, bytes.fromhex(case[f"{name}-signature"]))
        assert signer == signing_key.public_key().public_bytes_raw()


@cases("draws")
def test_seeded_draws(case: Case) -> None:
    """The very same numbers, to the last bit."""
    drawn = seeded_draws(
        case["seed"], case["alias"], case["first-round"], case["num-rounds"], case["num-tries"]
    )
    assert drawn.tolist() == case["numbers"]
    assert np.packbits(drawn < 0.5).tobytes().hex() == case["below-one-half"]


@cases("probabilities")
def test_the_probability_of_each_category(case: Case) -> None:
    """Eq. 6, to the last bit."""
    overall = case["overall-registry"]
    wanted = expected_volunteers(case["num-participants"], case["volunteer-tries"], sum(overall))
    assert wanted == case["num-volunteers"]
    assert participation_probability(overall, wanted).tolist() == case["probabilities"]


@cases("choices")
def test_what_an_agent_chooses(case: Case) -> None:
    """The best try, the best groups, or the best candidate."""
    if "expectations" in case:
        assert best_candidate(case["expectations"]) == case["candidate"]
        return
    sums, size = np.array(case["sums"]), case["group-size"]
    assert scaled_scores(sums, case["local-skew"]).tolist() == case["scores"]
    told = JoinRequest(
        (1, 2, 4), (0.6, 0.3), 4, 512, 20, 2, 9, 9, -1, 1, size, local_skew=case["local-skew"]
    )
    clients = np.full(len(sums), size or 4)
    assert best_selections(sums, clients, told) == case["chosen"]
    if size:
        wanted = group_sizes(4, size)
        assert best_groups(sums, clients, wanted, case["local-skew"]).tolist() == case["chosen"]


def session(case: Case) -> ClientSession:
    """Return a node that knows what the vector says it knows."""
    kept = case["kept"]
    told = announced(kept["parameters"])
    parameters, counts = epoch_parameters(told), kept["label-counts"]
    categories = [
        dominating_category(counts, parameters.codebook, thresholds)
        for thresholds in parameters.candidates
    ]
    state = SessionState(
        epoch=bytes.fromhex(kept["epoch"]),
        sequence=kept["sequence"],
        past_epochs=bytes.fromhex(kept["epoch"]),
        parameters=told,
        recipient_key=bytes.fromhex(kept["recipient-private-key"]),
        distribution=tuple(fixed_point_distribution(counts).tolist()),
        slots=tuple(parameters.codebook.rank(category) for category in categories),
        modulus=bytes.fromhex(kept.get("modulus", "")),
        secret_key=bytes.fromhex(kept.get("p", "")),
        num_registered=kept.get("num-registered", 0),
    )
    policy = NodePolicy(
        label_counts=lambda: case.get("label-counts-now", counts),
        alias=kept["alias"],
        seeded_draws=True,
        min_key_bits=512,
        max_label_shift=case.get("max-label-shift"),
    )
    return ClientSession(policy, state)


@cases("sessions")
def test_what_a_node_answers(case: Case) -> None:
    """The reply is this one, or one that decrypts to the same."""
    node, request = session(case), values(case["request"])
    reply = node.handle(request)
    header = {name: reply.pop(name) for name in ("epoch", "stage", "sequence", "version")}
    assert header == {name: request[name] for name in header}
    if "reply" in case:
        assert reply == values(case["reply"])
        return
    assert node.state is not None
    assert reply.keys() >= case["reply-decrypts-to"].keys()
    for field, numbers in case["reply-decrypts-to"].items():
        vector = reply[field]
        assert isinstance(vector, bytes)
        assert node.state.decrypt(field, vector, 1).tolist() == numbers


@cases("bad_messages")
def test_what_is_no_message(case: Case) -> None:
    """It is refused with an error of this type."""
    expected = Envelope(inputs.EPOCH, case["stage"], case["sequence"])

    def read(fields: Case) -> object:
        return open_request(fields) if case["kind"] == "request" else open_reply(fields, expected)

    with pytest.raises(error(case)) as refused:
        read(values(case["fields"]))
    assert refused.type is error(case)


@cases("bad_ciphertexts")
def test_what_is_not_decrypted(case: Case) -> None:
    """Nothing is told of it, for the plaintext may factor the modulus."""
    with pytest.raises(error(case)) as refused:
        secret_key(case).decrypt(bytes.fromhex(case["vector"]))
    assert str(refused.value) == ""


@cases("bad_packings")
def test_what_is_no_sum(case: Case) -> None:
    """A plaintext that is decrypted may still be no sum of so many clients."""
    layout = epoch_parameters(announced(case["parameters"])).layout
    plaintexts = [int(text, 16) for text in case["plaintexts"]]
    with pytest.raises(error(case)) as refused:
        layout.unpack(case["field"], plaintexts, case["num-clients"])
    assert str(refused.value) == ""


@cases("bad_sealed_keys")
def test_what_does_not_open(case: Case) -> None:
    """Whatever is wrong, the error is the same."""
    with pytest.raises(error(case)) as refused:
        opened(case)
    assert str(refused.value) == ""


@cases("bad_signatures")
def test_what_is_not_trusted(case: Case) -> None:
    """No other key, epoch or parameter, and no signature at all."""
    trusted = TrustedKeys(
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)) for key in case["trusted-keys"]
    )
    with pytest.raises(error(case)):
        trusted.signer(bytes.fromhex(case["statement"]), bytes.fromhex(case["signature"]))


@cases("bad_sessions")
def test_what_a_node_refuses(case: Case) -> None:
    """It keeps its state, but for what it has decrypted by then."""
    node, request = session(case), values(case["request"])
    before = node.state
    assert before is not None
    with pytest.raises(error(case)) as refused:
        node.handle(request)
    assert refused.type is error(case)
    assert only_charged(before, node.state, request)
