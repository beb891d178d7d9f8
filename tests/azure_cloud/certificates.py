"""Certificates by which this machine is Azure, for whoever trusts their authority."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

NAMES = (
    "management.azure.com",
    "login.microsoftonline.com",
    "*.blob.core.windows.net",
    "localhost",
)
_PEM = serialization.Encoding.PEM


class Files(NamedTuple):
    """Paths of PEM files."""

    authority: Path
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def write_certificates(folder: Path) -> Files:
    """Makes an authority and one certificate for all names."""
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority of Azure")])
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "azure")])
    authority = (
        _begun(root, root, root_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(root_key.public_key()), critical=False
        )
        .sign(root_key, hashes.SHA256())
    )
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in NAMES]
    alternatives.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    signed = (
        _begun(own, root, key.public_key())
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()),
            critical=False,
        )
        .sign(root_key, hashes.SHA256())
    )
    files = Files(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    files.authority.write_bytes(authority.public_bytes(_PEM))
    files.certificate.write_bytes(signed.public_bytes(_PEM))
    files.key.write_bytes(
        key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey):
    today = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - dt.timedelta(days=1))
        .not_valid_after(today + dt.timedelta(days=2))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
