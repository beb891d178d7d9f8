"""A TLS certificate for Azure's host names, which is its own authority."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

from emulators.certificates import authority

NAMES = (
    "management.azure.com",
    "login.microsoftonline.com",
    "*.blob.core.windows.net",
    "localhost",
)


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
    """Writes one certificate for all names, as authority and as server, and its key."""
    made = authority(NAMES)
    files = Files(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    for path, content in zip(files, (made.certificate, *made), strict=True):
        path.write_bytes(content)
    return files
