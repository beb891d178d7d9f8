"""Key file of a service account of the emulator."""

from __future__ import annotations

import json
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from emulators.gcp.server import GoogleServer


def write_key_file(path: Path, server: GoogleServer, project: str = "lab") -> Path:
    """Writes the file that GOOGLE_APPLICATION_CREDENTIALS names."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.touch(mode=0o600)
    content = {
        "type": "service_account",
        "project_id": project,
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": f"physicist@{project}.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": f"{server.url}/token",
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
