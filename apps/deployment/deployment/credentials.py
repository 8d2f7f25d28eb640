"""Throw-away credentials: the SuperLink's certificate and the SuperNodes' keys."""

import datetime as dt
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

_LIFETIME = dt.timedelta(days=1)


@dataclass(frozen=True)
class Credentials:
    """Paths of the files with which SuperLink and SuperNodes authenticate each other.

    Parameters
    ----------
    certificate, key : Path
        The SuperLink's certificate for the loopback interface, and its private key. It signs
        itself and no other certificate, so SuperLink and SuperNodes trust it as it is.
    node_keys : tuple of Path
        Private key of each SuperNode; the public key's path ends in `.pub`.
    """

    certificate: Path
    key: Path
    node_keys: tuple[Path, ...]

    @classmethod
    def make(cls, folder: Path, num_supernodes: int) -> "Credentials":
        """Make new credentials, valid for a day; only the owner can read the private keys."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP384R1())
        made = cls(
            certificate=folder / "superlink.pem",
            key=folder / "superlink.key",
            node_keys=tuple(folder / f"supernode-{i}" for i in range(num_supernodes)),
        )
        made.certificate.write_bytes(_certificate(key).public_bytes(Encoding.PEM))
        _write_secret(made.key, key, PrivateFormat.PKCS8)
        for path in made.node_keys:
            node_key = ec.generate_private_key(ec.SECP384R1())
            _write_secret(path, node_key, PrivateFormat.OpenSSH)
            public = node_key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
            path.with_suffix(".pub").write_bytes(public + b"\n")
        return made


def _write_secret(path: Path, key: ec.EllipticCurvePrivateKey, kind: PrivateFormat) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(Encoding.PEM, kind, NoEncryption()))


def _certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    """Return a self-signed certificate of a server on the loopback interface."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA384())
    )
