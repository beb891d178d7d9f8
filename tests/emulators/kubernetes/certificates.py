"""A certificate authority, and its certificates for servers on loopback."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority(NamedTuple):
    certificate: bytes
    """PEM, what clients trust."""
    server: bytes
    """PEM of the server's certificate."""
    key: bytes
    """PEM of its key."""


@cache
def authority(names: tuple[str, ...] = ("localhost",)) -> Authority:
    """Returns an authority of this process and what it signed for 127.0.0.1 and these names."""
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    own = x509.SubjectKeyIdentifier.from_public_key(root_key.public_key())
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key())
    known = [*map(x509.DNSName, names), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    root = _sign("test authority", root_key, root_key, own, is_authority=True)
    alternatives = x509.SubjectAlternativeName(known)
    signed = _sign("server", key, root_key, issuer, alternatives, is_authority=False)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Authority(root, signed, private)


def _sign(common: str, key: Any, signer: Any, *extensions: Any, is_authority: bool) -> bytes:
    names = [
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)])
        for one in (common, "test authority")
    ]
    today = dt.datetime.now(dt.UTC)
    uses = dict.fromkeys(
        [
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ],
        False,
    )
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=is_authority, crl_sign=is_authority, **uses
    )
    builder = (
        x509.CertificateBuilder(*names[::-1], key.public_key(), x509.random_serial_number())
        .not_valid_before(today - dt.timedelta(days=1))
        .not_valid_after(today + dt.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def server_context(folder: Path) -> ssl.SSLContext:
    """Returns the API server's side of TLS; the key passes through a file in `folder`."""
    path = folder / "apiserver.pem"
    path.touch(mode=0o600)
    path.write_bytes(authority().server + authority().key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
