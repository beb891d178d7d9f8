"""The secrets of a run: that by which its workers know each other, and variables of the user.

`deploy` makes the first one. It is delivered as a file that only the user of the workers can read: a
Kubernetes Secret as a volume, or a file with mode 0600 on this machine and on Slurm. It is in no plan, no
log, no store, no command line and no environment variable.

The variables of --secret have the values of the user's environment. In Kubernetes they are in the same
Secret, on Slurm in files beside that of the key; workers on this machine inherit them.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cloudgan.core import settings
from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.errors import ConfigError
from cloudgan.core.masking import hide

SECRET_NAMES = "CLOUDGAN_SECRETS"  # noqa: S105  names only
"""Variable of a worker with the names of the variables that are secret."""
_BYTES = 32
_MOST_BYTES = 256
_OWNER_ONLY = 0o600


def new_secret() -> str:
    """Returns 256 random bits as text."""
    return secrets.token_hex(_BYTES)


def write_secret(path: Path, variables: Iterable[str] = ()) -> None:
    """Writes a new secret to a file that only its owner can read, and variables of the user beside it."""
    values = {secret_key(name): secret_value(secret_key(name)) for name in variables}
    for name, value in {path.name: new_secret(), **values}.items():
        with atomic_writer(path.with_name(name), mode=_OWNER_ONLY) as file:
            file.write(value.encode())


def secret_key(name: str) -> str:
    """Returns the key of a variable in a Kubernetes Secret, and the name of its file."""
    return f"variable.{name}"


def secret_value(key: str) -> str:
    """Returns the value that this environment has for a `secret_key`.

    Raises:
        ConfigError: It is not set.
    """
    name = key.removeprefix(secret_key(""))
    if not (found := settings.variable(name)):
        raise ConfigError(f"--secret={name}: {name} is not set in this environment")
    hide(found)
    return found


def take_variables(variable: Callable[[str], str | None], key_file: str | None) -> None:
    """Sets the secret variables of this worker for itself and its trainer, and masks them in its log.

    Args:
        variable: Returns the value of an environment variable.
        key_file: File of the run's secret, which has those of the variables beside it; they are in the
            environment already where there is none.
    """
    for name in filter(None, (variable(SECRET_NAMES) or "").split(",")):
        path = Path(key_file).with_name(secret_key(name)) if key_file else None
        try:
            found = path.read_text(encoding="utf-8") if path and path.exists() else variable(name)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror}); deploy again") from error
        if not found:
            raise ConfigError(f"--secret={name} did not reach this worker; deploy again")
        hide(found)
        settings.set_variables({name: found})


@dataclass(frozen=True)
class RunSecret:
    """Makes and checks the tokens of a run's workers."""

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

    def token(self, role: str) -> str:
        """Returns what proves a role in this run: HMAC-SHA256 (RFC 2104), which shows neither the secret nor another token."""
        return hmac.new(self._key, role.encode(), hashlib.sha256).hexdigest()

    def is_token(self, given: str, role: str) -> bool:
        """Whether `given` proves the role; compares in constant time."""
        return hmac.compare_digest(given.encode(), self.token(role).encode())
