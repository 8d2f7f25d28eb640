"""Tests of a node's keys: read from files, found by Context, and refused if invalid."""

import logging
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from apis import node_context
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from flwr.app import Context

from dubhe_flwr.clientapp import DubheMod, load_signing_key, load_trusted_keys
from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.protocol import Fields
from dubhe_flwr.protocol.wire.announced import JoinRequest, JoinStatus
from dubhe_flwr.protocol.wire.envelope import Envelope
from dubhe_flwr.protocol.wire.messages import HelloRequest
from dubhe_flwr.rules import Paper

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(3)]
TRUSTED = [key.public_key() for key in KEYS]
RULE = Paper((1, 2, 4), {1: 0.7, 2: 0.2})
JOIN = JoinRequest(RULE.name, RULE.to_json(), 6, 512, 100, 3, has_trusted_keys=True)
PRIVATE = PrivateFormat.PKCS8


def join(mod: DubheMod, node: Context, number: int = 1) -> Fields:
    """Ask a node to join an epoch."""
    return mod.handle(Envelope(bytes([number]) * 16, "join", 1).seal(JOIN), node)


def mod_with(**options: Any) -> DubheMod:
    """Return the client side with small keys."""
    return DubheMod(lambda _context: [5, 5, 5, 5], min_key_bits=512, **options)


@pytest.mark.parametrize(
    ("form", "password"), [(PrivateFormat.OpenSSH, None), (PRIVATE, None), (PRIVATE, b"secret")]
)
def test_a_signing_key(tmp_path: Path, form: PrivateFormat, password: bytes | None) -> None:
    """Private keys are read from OpenSSH and PEM files, with or without a password."""
    locked = BestAvailableEncryption(password) if password else NoEncryption()
    path = tmp_path / "node.key"
    path.write_bytes(KEYS[0].private_bytes(Encoding.PEM, form, locked))
    key = load_signing_key(path, password)
    assert key.private_bytes_raw() == KEYS[0].private_bytes_raw()
    if password:
        for wrong in (None, b"other"):
            with pytest.raises(SettingsError, match=r"that can be opened; .* as bytes; .* bcrypt"):
                load_signing_key(str(path), wrong)


@pytest.mark.parametrize(
    "content",
    [
        b"nonsense",
        b"-----BEGIN OPENSSH PRIVATE KEY-----\nnonsense\n-----END OPENSSH PRIVATE KEY-----\n",
        b"-----BEGIN PRIVATE KEY-----\nnonsense\n-----END PRIVATE KEY-----\n",
        generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PRIVATE, NoEncryption()),
        TRUSTED[0].public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH),
    ],
    ids=["nonsense", "not OpenSSH", "not PEM", "another curve", "public"],
)
def test_an_unfit_signing_key_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """The error says how to make a key, and quotes nothing from the file."""
    path = tmp_path / "node.key"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match="ssh-keygen -t ed25519") as error:
        load_signing_key(path)
    assert "nonsense" not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__ or error.value.__context__ is None


@pytest.mark.parametrize("load", [load_signing_key, load_trusted_keys])
def test_a_missing_file(tmp_path: Path, load: Callable[[Path], Any]) -> None:
    """The error names the path of a missing file."""
    with pytest.raises(SettingsError, match=r"missing.key cannot be read \(No such file"):
        load(tmp_path / "missing.key")


def test_trusted_keys(tmp_path: Path) -> None:
    """Public keys are read one per line, with comments and empty lines, and as PEM blocks."""
    line = TRUSTED[0].public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    form, path = PublicFormat.SubjectPublicKeyInfo, tmp_path / "trusted"
    pems = [key.public_bytes(Encoding.PEM, form) for key in TRUSTED[1:]]
    path.write_bytes(
        b"# nodes\r\n\r\n" + line + b" node@host\r\n# of another kind\n" + b"".join(pems)
    )
    assert list(load_trusted_keys(path)) == list(load_trusted_keys(str(path))) == TRUSTED


def test_an_invalid_line_is_named(tmp_path: Path) -> None:
    """The error names the number of a line that has another kind of key, or none, in no time."""
    other = generate_private_key(SECP256R1()).public_key()
    first = TRUSTED[0].public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    path = tmp_path / "trusted"
    for second in (
        other.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH),
        b"nonsense",
        b"-----BEGIN PUBLIC KEY-----\n" * 8000,
        first[:-10],
        TRUSTED[1].public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)[:-20],
    ):
        path.write_bytes(first + b"\n" + second + b"\n")
        begin = process_time()
        with pytest.raises(SettingsError, match=r"Key 2 in .*trusted is not a public Ed25519 key"):
            load_trusted_keys(path)
        assert process_time() - begin < 2


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"signing_key": KEYS[0]}, "pass both or neither"),
        ({"trusted_keys": TRUSTED}, "pass both or neither"),
        ({"signing_key": lambda _c: KEYS[0], "trusted_keys": []}, "trusted_keys is empty"),
        ({"signing_key": KEYS[0], "trusted_keys": TRUSTED[1:]}, "not among trusted_keys"),
    ],
)
def test_unfit_keys_are_refused_at_once(options: Any, match: str) -> None:
    """Invalid keys are refused before any message arrives."""
    with pytest.raises(SettingsError, match=match):
        mod_with(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"signing_key": KEYS[1], "trusted_keys": iter(TRUSTED)},
        {"signing_key": lambda c: KEYS[c.node_config["partition-id"]], "trusted_keys": TRUSTED},
        {"signing_key": KEYS[1], "trusted_keys": lambda _c: TRUSTED},
        {"signing_key": lambda _c: KEYS[1], "trusted_keys": lambda _c: iter(TRUSTED)},
    ],
)
def test_keys_sign_any_number_of_requests(options: Any) -> None:
    """Given directly, or found by a function; a node that declines signs nothing."""
    declines: list[bool] = []
    mod = mod_with(willing=lambda *_: not declines, exact_sums=True, **options)
    node = node_context(1)
    for number in (1, 2):
        signature: Any = join(mod, node, number)["signature"]
        assert signature[:32] == TRUSTED[1].public_bytes_raw()
    declines.append(True)
    assert "signature" not in join(mod, node, 3)


@pytest.mark.parametrize(
    ("find", "said"),
    [
        (lambda c: load_signing_key(c.node_config["signing-key"]), "cannot be read"),
        (lambda _c: Ed25519PrivateKey.generate(), "not among trusted_keys"),
        (lambda _c: None, "not a private Ed25519 key"),
        (lambda c: c.node_config["no such key"], "raised KeyError"),
    ],
)
def test_a_node_that_cannot_find_its_keys_takes_part_in_nothing(
    find: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The node refuses everything; its own log says why, and the server does not learn it."""
    node = node_context(1, **{"signing-key": "/nowhere/node.key"})
    mod = mod_with(signing_key=find, trusted_keys=TRUSTED)
    with caplog.at_level(logging.ERROR, logger="flwr"):
        for request in (HelloRequest(), JOIN):
            stage = "join" if request is JOIN else "hello"
            with pytest.raises(RefusedError, match="its log says why") as error:
                mod.handle(Envelope(bytes(16), stage, 1).seal(request), node)
            assert "nowhere" not in str(error.value)
    assert said in caplog.text
    assert not node.state.config_records


def test_missing_keys_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """All nodes without keys that share a process warn once, when the first of them joins."""
    mod_with().handle(Envelope(bytes(16), "hello", 1).seal(HelloRequest()), node_context(1))
    for exact_sums in (False, True):  # only the second one joins
        pinned = mod_with(signing_key=KEYS[0], trusted_keys=TRUSTED, exact_sums=exact_sums)
        assert (join(pinned, node_context(1))["status"] == JoinStatus.JOINS) == exact_sums
    join(mod_with(simulated=True), node_context(1))
    assert "no signing_key" not in caplog.text
    for mod in (mod_with(), mod_with()):
        node = node_context(1)
        join(mod, node, 1)
        join(mod, node, 2)
    (message,) = (text for text in caplog.messages if "no signing_key" in text)
    assert "can read what the node sends; give the node both" in message
