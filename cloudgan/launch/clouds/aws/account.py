"""Client of the AWS APIs: any service and region, with bounded retries."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import botocore.config
import botocore.exceptions as failures
from botocore import xform_name
from botocore.parsers import ResponseParserError

from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.launch.clouds.aws.error_mapping import LOGIN, error_of
from cloudgan.storage.aws_configuration import NO_LOGIN, checked_configuration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import boto3

_ATTEMPTS: Final = 8
"""Attempts of one request; about half a minute with botocore's backoff."""


class Account:
    """Sends requests of one AWS login.

    Args:
        session: With a login.
        attempts: Attempts of one request.
    """

    def __init__(self, session: boto3.Session, *, attempts: int = _ATTEMPTS) -> None:
        self.session = session
        self._config = botocore.config.Config(
            connect_timeout=5,
            read_timeout=60,
            max_pool_connections=16,
            retries={"mode": "standard", "total_max_attempts": attempts},
        )
        self._clients: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()  # clients are thread-safe, their creation is not

    def request(
        self, service: str, region: str, operation: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Sends one request and returns its response.

        Raises:
            CapacityError: No machine of this type, or no quota.
            CredentialsError: The login is missing or lacks a permission.
            RefusedError: AWS refused for another reason.
            LaunchError: AWS did not respond.
        """
        with _mapped_errors(service, f"{operation} in {region}"):
            call = getattr(self._client(service, region), xform_name(operation))
            answer: dict[str, Any] = call(**body or {})
            return answer

    def list_all(
        self, service: str, region: str, operation: str, key: str, **body: Any
    ) -> Iterator[Any]:
        """Yields the items under `key` in all pages of a list operation."""
        with _mapped_errors(service, f"{operation} in {region}"):
            pages = self._client(service, region).get_paginator(xform_name(operation))
            for page in pages.paginate(**body):
                yield from page.get(key, ())

    def _client(self, service: str, region: str) -> Any:
        with self._lock:
            if (service, region) not in self._clients:
                with checked_configuration():
                    client = self.session.client(service, region_name=region, config=self._config)
                self._clients[service, region] = client
            return self._clients[service, region]


@contextmanager
def _mapped_errors(service: str, request: str) -> Iterator[None]:
    try:
        yield
    except failures.ClientError as error:
        raise error_of(error.response, request, service) from error
    except NO_LOGIN as error:
        raise CredentialsError(f"AWS: {error}; {LOGIN}") from error
    except (failures.BotoCoreError, ResponseParserError) as error:
        raise LaunchError(f"AWS: {request}: {error}") from error
