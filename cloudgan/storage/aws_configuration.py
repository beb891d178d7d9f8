"""Faults in the settings of boto3: its environment variables and its files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

import botocore.exceptions as failures

from cloudgan.core.documents import read_bytes
from cloudgan.core.errors import ConfigError, shorten
from cloudgan.core.local_path import local_path
from cloudgan.core.settings import check_addresses, variable

_FILES: Final = {
    "AWS_CONFIG_FILE": "~/.aws/config",
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
}
_MOST_BYTES: Final = 1 << 20

NO_LOGIN: Final = (
    failures.NoCredentialsError,
    failures.PartialCredentialsError,
    failures.ProfileNotFound,
    failures.CredentialRetrievalError,
    failures.TokenRetrievalError,
    failures.SSOError,
    getattr(failures, "LoginError", failures.SSOError),  # of `aws login`, botocore 1.41 and later
    RuntimeError,  # botocore.credentials: expired as soon as they were renewed
)
"""Errors of boto3 that mean that no login was found; the callers say which one they need."""


@contextlib.contextmanager
def checked_configuration() -> Iterator[None]:
    """Turns what boto3 raises for invalid settings, while a client is created, into one error.

    Settings are https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html (2026-11-22).
    """
    check_addresses("AWS_ENDPOINT_URL")
    for name, default in _FILES.items():
        path = local_path(variable(name) or default, source=name)
        # boto3 reads all of a file, and waits at a pipe. /dev/null is the usual way to have no file.
        if os.path.exists(path) and os.path.realpath(path) != os.devnull:  # noqa: PTH110
            read_bytes(path, ConfigError, limit=_MOST_BYTES)
    try:
        yield
    except NO_LOGIN:
        raise
    except (failures.BotoCoreError, ValueError, OSError) as error:
        # botocore lets the ValueError of its own parsers through.
        raise ConfigError(
            f"the AWS settings are invalid ({shorten(str(error), 200)}); correct AWS_ENDPOINT_URL,"
            " AWS_REGION and the other variables AWS_*, or the files AWS_CONFIG_FILE and"
            " AWS_SHARED_CREDENTIALS_FILE (default: ~/.aws)"
        ) from error
