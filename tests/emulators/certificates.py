"""A certificate of servers on loopback, which is its own authority."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAMES = (
    "localhost",
    "management.azure.com",
    "login.microsoftonline.com",
    "*.blob.core.windows.net",
)
USES = ("key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only")


class Authority(NamedTuple):
    certificate: bytes
    """PEM: what clients trust, and what the server shows."""
    key: bytes
    """PEM of its key."""


class Files(NamedTuple):
    """Paths of PEM files: what clients trust, what servers show, and its key."""

    authority: Path
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Returns the server's side of TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


@cache
def authority(names: tuple[str, ...] = NAMES) -> Authority:
    """Returns a certificate of this process for 127.0.0.1 and these names."""
    key, today = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    known = [*map(x509.DNSName, names), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    uses = dict.fromkeys(USES, False) | {"content_commitment": False, "crl_sign": True}
    usage = x509.KeyUsage(digital_signature=True, key_cert_sign=True, **uses)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    signed = (
        x509.CertificateBuilder(own, own, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - dt.timedelta(days=1))
        .not_valid_after(today + dt.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.SubjectAlternativeName(known), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    return Authority(signed.public_bytes(encoding), private)


def write_certificates(folder: Path) -> Files:
    """Writes the certificate for all names, as authority and as server, and its key."""
    made = authority()
    files = Files(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    for path, content in zip(files, (made.certificate, *made), strict=True):
        path.touch(mode=0o600)
        path.write_bytes(content)
    return files
