"""Throw-away credentials: an authority, the SuperLink's certificate and the SuperNodes' keys."""

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
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=1)


@dataclass(frozen=True)
class Credentials:
    """Paths of the files with which SuperLink and SuperNodes authenticate each other.

    The authority's own key is never written to disk, so nobody can issue another certificate.

    Parameters
    ----------
    authority : Path
        The authority's certificate, which SuperLink and SuperNodes need to connect.
    certificate, key : Path
        The SuperLink's certificate for the loopback interface, and its private key.
    node_keys : tuple of Path
        Private key of each SuperNode; the public key's path ends in `.pub`.
    """

    authority: Path
    certificate: Path
    key: Path
    node_keys: tuple[Path, ...]

    @classmethod
    def make(cls, folder: Path, num_supernodes: int) -> "Credentials":
        """Make new credentials in a folder, valid for a day.

        Parameters
        ----------
        folder : Path
            Folder to write them to; only the owner can read the private keys.
        num_supernodes : int
            Number of SuperNodes.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority_key = ec.generate_private_key(ec.SECP384R1())
        authority = _certificate("dubhe throw-away authority", authority_key)
        key = ec.generate_private_key(ec.SECP384R1())
        certificate = _certificate("localhost", key, issuer=authority, issuer_key=authority_key)
        made = cls(
            authority=folder / "authority.pem",
            certificate=folder / "superlink.pem",
            key=folder / "superlink.key",
            node_keys=tuple(folder / f"supernode-{i}" for i in range(num_supernodes)),
        )
        made.authority.write_bytes(authority.public_bytes(Encoding.PEM))
        made.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
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


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None = None,
    issuer_key: ec.EllipticCurvePrivateKey | None = None,
) -> x509.Certificate:
    """Return a self-signed authority's certificate or, with an `issuer`, a loopback server's."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    is_authority = issuer is None
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=not is_authority,
                key_cert_sign=is_authority,
                crl_sign=is_authority,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key((issuer_key or key).public_key()),
            critical=False,
        )
    )
    if not is_authority:
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        builder = builder.add_extension(
            x509.SubjectAlternativeName(names), critical=False
        ).add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(issuer_key or key, hashes.SHA384())
