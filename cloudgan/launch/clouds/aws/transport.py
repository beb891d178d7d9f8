"""Requests of one AWS login: any service and region, by boto3 with bounded retries."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

import boto3
import botocore.config
from botocore import xform_name

from cloudgan.launch.clouds.aws.login import mapped_errors
from cloudgan.launch.clouds.aws.requests import Aws
from cloudgan.storage.aws_configuration import checked_configuration

ATTEMPTS: Final = 8
"""Attempts of one request; about half a minute with botocore's backoff."""


class BotoAws(Aws):
    """Sends the requests of one session of boto3."""

    def __init__(self, session: boto3.Session, region: str, *, attempts: int = ATTEMPTS) -> None:
        super().__init__(region)
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
        """Sends one request and returns its response."""
        with mapped_errors(service, f"{operation} in {region}"):
            call = getattr(self._client(service, region), xform_name(operation))
            answer: dict[str, Any] = call(**body or {})
            return answer

    def items(
        self, service: str, region: str, operation: str, place: str, **body: Any
    ) -> Iterator[Any]:
        """Yields the items at a place, such as ``Reservations.Instances``, of all pages of an answer."""
        with mapped_errors(service, f"{operation} in {region}"):
            client, method = self._client(service, region), xform_name(operation)
            if client.can_paginate(method):
                pages = client.get_paginator(method).paginate(**body)
            else:
                pages = (getattr(client, method)(**body),)
            for page in pages:
                found = [page]
                for key in place.split(".") if place else ():
                    values = [one[key] for one in found if one.get(key) is not None]
                    found = [
                        each for one in values for each in (one if isinstance(one, list) else [one])
                    ]
                yield from found

    def _client(self, service: str, region: str) -> Any:
        with self._lock:
            if (service, region) not in self._clients:
                with checked_configuration():
                    client = self.session.client(service, region_name=region, config=self._config)
                self._clients[service, region] = client
            return self._clients[service, region]
