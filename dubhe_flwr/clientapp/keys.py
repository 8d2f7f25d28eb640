"""Finds a node's signing key and trusted keys, and reads key files."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from flwr.app import Context

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.he.signing import PinnedKeys, TrustedKeys

SigningKey = Ed25519PrivateKey | Callable[[Context], Ed25519PrivateKey]
"""A node's own key, or a function that finds it, for instance from the node config."""

TrustedKeysOfNode = Iterable[Ed25519PublicKey] | Callable[[Context], Iterable[Ed25519PublicKey]]
"""The public keys of all nodes, or a function that finds them."""

_ENTRY = re.compile(
    rb"^[ \t]*(-----BEGIN PUBLIC KEY-----[^-]*-----END PUBLIC KEY-----|[^#\s].*)", re.MULTILINE
)
"""A PEM block, or a line that is neither empty nor a comment."""


def pinned_keys(
    signing_key: SigningKey | None, trusted_keys: TrustedKeysOfNode | None
) -> Callable[[Context], PinnedKeys | None]:
    """Return a function that finds a node's keys from its Context.

    Raises `SettingsError` for invalid keys.
    """
    if signing_key is None and trusted_keys is None:
        return lambda _context: None
    if signing_key is None or trusted_keys is None:
        raise SettingsError(
            "signing_key and trusted_keys only work together; pass both or neither."
        )
    trusted = trusted_keys if callable(trusted_keys) else TrustedKeys(trusted_keys)
    if not callable(signing_key) and isinstance(trusted, TrustedKeys):
        pinned = PinnedKeys(signing_key, trusted)
        return lambda _context: pinned

    def find(context: Context) -> PinnedKeys:
        own = signing_key(context) if callable(signing_key) else signing_key
        return PinnedKeys(own, trusted(context) if callable(trusted) else trusted)

    return find


def load_signing_key(path: str | Path, password: bytes | None = None) -> Ed25519PrivateKey:
    """Read a node's private key, as `ssh-keygen -t ed25519` or OpenSSL writes it.

    Parameters
    ----------
    path : str or Path
        A file in OpenSSH or PEM format.
    password : bytes, optional
        The password that encrypts the file. OpenSSH's own format then needs the package bcrypt;
        PEM needs no further package.

    Raises
    ------
    SettingsError
        If there is no such file, or it has no private Ed25519 key that can be opened.
    """
    data = _read(path)
    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in data else load_pem_private_key
    try:
        key = load(data, password)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # their messages may quote the file
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingsError(
            f"{path} holds no private Ed25519 key that can be opened; make one with "
            "ssh-keygen -t ed25519. If the key has a password, pass that as bytes; OpenSSH's "
            "format then needs the package bcrypt."
        ) from None
    return key


def load_trusted_keys(path: str | Path) -> tuple[Ed25519PublicKey, ...]:
    """Read the public keys of all nodes.

    The file has OpenSSH keys, one per line, as `cat *.pub` prints them, and PEM blocks. Empty lines
    and lines that begin with ``#`` are ignored.

    Raises
    ------
    SettingsError
        If there is no such file, or a line is not a public Ed25519 key.
    """
    entries: list[bytes] = _ENTRY.findall(_read(path).replace(b"\r", b"\n"))
    keys = []
    for number, entry in enumerate(map(bytes.strip, entries), start=1):
        load = load_pem_public_key if entry.startswith(b"-----") else load_ssh_public_key
        try:
            key: object = load(entry)
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise SettingsError(
                f"Key {number} in {path} is not a public Ed25519 key; list one per line, as "
                "ssh-keygen -t ed25519 writes it to its .pub file."
            )
        keys.append(key)
    return tuple(keys)


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be read ({error.strerror}); pass the path of a key file."
        ) from None
