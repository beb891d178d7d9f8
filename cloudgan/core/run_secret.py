"""The secret of a run, with which its workers sign their requests to each other.

`deploy` makes it. It is delivered as a file that only the user of the workers can read: a Kubernetes
Secret as a volume, or a file with mode 0600 on this machine and on Slurm. It is in no plan, no log, no
store, no command line and no environment variable.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_BYTES = 32
_MOST_BYTES = 256
_OWNER_ONLY = 0o600


def new_secret() -> str:
    """Returns 256 random bits as text."""
    return secrets.token_hex(_BYTES)


def write_secret(path: Path) -> None:
    """Writes a new secret to a file that only its owner can read.

    Raises:
        DataError: The folder is not writable.
    """
    with atomic_writer(path, mode=_OWNER_ONLY) as file:
        file.write(new_secret().encode())


@dataclass(frozen=True)
class RunSecret:
    """Signs and verifies messages with HMAC-SHA256 (RFC 2104)."""

    _key: bytes = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> RunSecret:
        """Reads the secret of this worker's run.

        Raises:
            ConfigError: The file is missing, too short, too long, or writable by other users.
        """
        try:
            with path.open("rb") as file:
                mode = stat.S_IMODE(path.stat().st_mode)
                key = file.read(_MOST_BYTES + 1).strip()
        except OSError as error:
            raise ConfigError(
                f"the secret of the run cannot be read: {path} ({error.strerror}); deploy again"
            ) from error
        if not 2 * _BYTES <= len(key) <= _MOST_BYTES:
            raise ConfigError(f"{path} does not hold the secret of a run; deploy again")
        if mode & (stat.S_IWGRP | stat.S_IRWXO) & ~stat.S_IXOTH:
            raise ConfigError(
                f"{path} is accessible to other users (mode {mode:04o}); deploy again, or run"
                f" chmod 600 {path}"
            )
        return cls(key)

    def sign(self, *parts: str | bytes) -> str:
        """Returns the signature of `parts`; where one ends is part of what is signed."""
        whole = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in parts:
            content = part.encode() if isinstance(part, str) else part
            whole.update(len(content).to_bytes(8, "big"))
            whole.update(content)
        return whole.hexdigest()

    def verifies(self, signature: str, *parts: str | bytes) -> bool:
        """Whether `signature` is that of `parts`; compares in constant time."""
        return hmac.compare_digest(signature.encode(), self.sign(*parts).encode())
