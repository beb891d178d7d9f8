"""Rows of AWS and the transport that reads them: any service and region, by boto3 with bounded retries.

Planners import this module without AWS' SDK.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from cloudgan.launch.clouds.aws.errors import RefusedError
from cloudgan.launch.clouds.resource import Resource
from cloudgan.launch.clouds.rows import AbsentError, Body, BusyError, Kind
from cloudgan.schema.plan import Step

GLOBAL_REGION: Final = "us-east-1"
"""Requests to services without regions, such as IAM, are signed for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """What AWS calls the requests of a kind. Arguments have keys of `Step.ref`, and ``{owner}``, in braces.

    Attributes:
        which: Its arguments.
        found: Place of the description in the answer; of a list the first.
        deletes: Its arguments; None: those of `get`.
        tags: Place of the tags in the description.
        labels: Labels in addition to the tags.
        key: Member of a listed description that is its name in the region.
        exists: Error codes of a create request whose resource exists.
        busy: Error codes while another operation runs.
        search: Adds to the parts of a name what the requests need; None: there is no such resource.
        complete: Adds what other requests describe; None: the resource is gone.
    """

    service: str
    get: str = ""
    which: Mapping[str, Any] = field(default_factory=dict)
    found: str = ""
    delete: str = ""
    deletes: Mapping[str, Any] | None = None
    tags: str = "tags"
    labels: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    exists: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    search: Callable[[Aws, Mapping[str, str]], Mapping[str, str] | None] = lambda _, ref: ref
    complete: Callable[[Aws, str, dict[str, Any]], Body | None] = lambda _, __, body: body


class Aws:
    """`Transport` of one login.

    Args:
        session: Of boto3.
        region: Region of requests that may go to any.
        attempts: Of one request; 8 take about half a minute with botocore's backoff.

    Attributes:
        ensured: Steps of schedules by the name of their group: a group that another client deletes is
            created again with all of them.
    """

    def __init__(self, session: Any, region: str, *, attempts: int = 8) -> None:
        self.session, self.region, self._attempts = session, region, attempts
        self.ensured: dict[str, dict[str, Step]] = {}
        self._clients: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()  # clients are thread-safe, their creation is not

    def request(
        self, service: str, region: str, operation: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Sends one request and returns its response.

        Raises:
            RefusedError: AWS refused for another reason.
        """
        with self._sending(service, region, operation) as (client, method):
            answer: dict[str, Any] = getattr(client, method)(**body or {})
            return answer

    def items(
        self, service: str, region: str, operation: str, place: str, **body: Any
    ) -> Iterator[Any]:
        """Yields the items at a place, such as ``Reservations.Instances``, of all pages of an answer."""
        with self._sending(service, region, operation) as (client, method):
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

    @contextmanager
    def _sending(self, service: str, region: str, operation: str) -> Iterator[tuple[Any, str]]:
        """Yields boto3's client of a service and the name of its method; raises errors of cloudgan."""
        from botocore import xform_name

        from cloudgan.launch.clouds.aws.login import mapped_errors, open_client

        with mapped_errors(service, f"{operation} in {region}"):
            with self._lock:
                if (service, region) not in self._clients:
                    made = open_client(self.session, service, region, self._attempts)
                    self._clients[service, region] = made
                client = self._clients[service, region]
            yield client, xform_name(operation)

    @cached_property
    def login(self) -> Mapping[str, str]:
        """Account and ARN of the login."""
        found = self.request("sts", self.region, "GetCallerIdentity")
        return {"account": found["Account"], "who": found["Arn"]}

    def get(self, kind: Kind, name: str) -> Body | None:
        """Returns the description of a resource; None if it is absent."""
        call: Requests = kind.request
        ref = call.search(self, kind.ref_of(name))
        if ref is None:
            return None
        where = call.service, ref.get("region", GLOBAL_REGION)
        try:
            found = list(self.items(*where, call.get, call.found, **self._filled(call.which, ref)))
        except AbsentError:
            return None
        return call.complete(self, name, _described(call, found[0])) if found else None

    def create(self, kind: Kind, step: Step, body: Any) -> None:
        """Sends a step's request; a resource that exists, as after a lost response, is no error."""
        call: Requests = kind.request
        try:
            self.request(
                call.service, step.ref.get("region", GLOBAL_REGION), step.method, body or {}
            )
        except RefusedError as error:
            if error.code in call.busy:
                raise BusyError(str(error)) from error
            if error.code not in call.exists:
                raise

    def delete(self, kind: Kind, name: str) -> None:
        """Requests deletion; an absent resource is no error."""
        call: Requests = kind.request
        ref = call.search(self, kind.ref_of(name))
        if ref is not None:
            which = self._filled(call.which if call.deletes is None else call.deletes, ref)
            region = ref.get("region", GLOBAL_REGION)
            self.if_exists(call.service, region, call.delete, **which)

    def listed(self, kind: Kind, region: str, **which: Any) -> Iterator[Resource]:
        """Yields the resources of a kind whose operation `get` describes several."""
        call: Requests = kind.request
        for found in self.items(call.service, region, call.get, call.found, **which):
            yield kind.resource(f"{region}/{found[call.key]}", _described(call, found))

    def if_exists(
        self, service: str, region: str, operation: str, **body: Any
    ) -> dict[str, Any] | None:
        """Sends a request; returns None if its resource does not exist."""
        try:
            return self.request(service, region, operation, body)
        except AbsentError:
            return None

    def _filled(self, part: Any, ref: Mapping[str, str]) -> Any:
        if isinstance(part, Mapping):
            return {key: self._filled(one, ref) for key, one in part.items()}
        if isinstance(part, list):
            return [self._filled(one, ref) for one in part]
        owner = {"owner": self.login["account"]} if part == "{owner}" else {}
        return part.format_map({**ref, **owner})


def _described(call: Requests, found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a description with its tags as one mapping, whatever form the service gives them."""
    return {**found, "tags": tags_of(found.get(call.tags)) | dict(call.labels)}


def tags_of(listed: Any) -> dict[str, str]:
    """Returns tags as a mapping; they may be a list of key-value pairs."""
    if isinstance(listed, Mapping):
        return dict(listed)
    return {one["Key"]: one["Value"] for one in listed or ()}


def row(
    name: str, order: int, request: Requests, path: str = "{region}/{name}", **how: Any
) -> Kind:
    """Returns a row; of most kinds only what is ready has a description."""
    how = {"labels": "tags", "region": "region", "otherwise": "ready"} | how
    return Kind(name=name, order=order, request=request, path=path, **how)


def asked(step: Step, member: str) -> Any:
    """Returns a member of the arguments that a step asks for."""
    return step.body[member]  # type: ignore[call-overload,index]
