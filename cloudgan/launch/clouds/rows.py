"""Rows: a cloud is a transport, rows of `Kind` and functions that make request bodies."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.launch.clouds.resource import Listing, Resource, ResourceState
from cloudgan.schema.plan import Step

Body = Mapping[str, Any]
"""A resource as its cloud describes it."""


class AbsentError(LaunchError):
    """The resource does not exist."""


class DeniedError(CredentialsError):
    """The login lacks a permission; one that has expired or is not recognised says nothing about a resource."""


class BusyError(LaunchError):
    """Another operation of the cloud has to end first; the request may be repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One row: what the engine knows of a kind of resource. Places in a body are written ``a.b.c``.

    The hooks get the cloud's transport first. They say what a row cannot.

    Attributes:
        name: Of the kind, as steps and resources have it, such as ``GKE node pool``.
        order: Deletion order: lower values are deleted first, equal ones at the same time.
        path: A resource's full name, with the keys of a step's `ref` in braces, such as
            ``{region}/{cluster}/{name}``.
        request: What the transport needs to find and delete one, such as an address or operations.
        state: Place of the life-cycle state in the body.
        states: States by the cloud's name for them.
        otherwise: State of other names.
        labels: Place of the labels in the body, or the labels of what cannot carry any.
        region: Key of `ref`, else place in the body.
        created: Place of the creation time in the body.
        fee: Name in the fee list; None: no fee.
        is_free: Whether it is free of charge.
        may_be_foreign: Whether runs use one that another user created; it is never changed or deleted.
        ends_run: Whether it ends nodes without a launcher, and is deleted after them.
        is_deletable: Whether it can be deleted by itself; others go with what contains them.
        busy_seconds: Limit for repeated requests while another operation runs; None: the cloud's.
        refine: Adds what the body says beyond the row, such as the number of nodes; pure.
        accepts: Whether what has the name is what a step asks for; may refuse it.
        find: In place of a request by name; gets a step.
        create: In place of the transport's; gets a step and its body.
        explain: Adds the reason of a delay or failure; asks the cloud.
        before_delete: Prepares the deletion, or refuses it.
    """

    name: str
    order: int
    path: str = "{name}"
    request: Any = None
    state: str = "status"
    states: Mapping[str, ResourceState] = field(default_factory=dict)
    otherwise: ResourceState = "creating"
    labels: str | Mapping[str, str] = "labels"
    region: str = "location"
    created: str = "createTime"
    fee: str | None = None
    is_free: bool = False
    may_be_foreign: bool = False
    ends_run: bool = False
    is_deletable: bool = True
    busy_seconds: float | None = None
    refine: Callable[[Resource, Body], Resource] = lambda resource, _: resource
    accepts: Callable[[Any, Step, Body], bool] = lambda _, __, ___: True
    find: Callable[[Any, Step], Resource | None] | None = None
    create: Callable[[Any, Step, Any], None] | None = None
    explain: Callable[[Any, Resource, Body], Resource] = lambda _, resource, __: resource
    before_delete: Callable[[Any, Resource], None] = lambda _, __: None

    def name_of(self, ref: Mapping[str, str]) -> str:
        """Returns the full name of a step's resource."""
        return self.path.format_map(ref)

    def step(
        self, ensure: str, ref: Mapping[str, str], path: str, body: Any, method: str = "POST"
    ) -> Step:
        """Returns the step of a plan that ensures one."""
        return Step(
            ensure=ensure,
            kind=self.name,
            ref=dict(ref),
            method=method,
            path=path,
            at="cloud",
            body=body,
        )

    def ref_of(self, name: str) -> Mapping[str, str]:
        """Returns the parts of a full name."""
        found = _pattern(self.path).fullmatch(name)
        if found is None:
            raise LaunchError(f"{name} is no {self.name}: expected {self.path}")
        return found.groupdict()

    def resource(self, name: str, body: Body) -> Resource:
        """Returns the resource that a cloud describes."""
        is_fixed = not isinstance(self.labels, str)
        labels = self.labels if is_fixed else look_up(body, str(self.labels)) or {}
        region = self.ref_of(name).get(self.region) or look_up(body, self.region)
        created = look_up(body, self.created)
        found = Resource(
            kind=self.name,
            name=name,
            state=self.states.get(str(look_up(body, self.state)), self.otherwise),
            labels=labels,  # type: ignore[arg-type]
            region=str(region or ""),
            deletion_order=self.order,
            created_at=created.isoformat() if isinstance(created, dt.datetime) else created,
            fee=self.fee,
            is_free=self.is_free,
            may_be_foreign=self.may_be_foreign,
            ends_run=self.ends_run,
        )
        return self.refine(found, body)


@cache
def _pattern(path: str) -> re.Pattern[str]:
    """Returns the expression of a path's names: a part has no slash."""
    parts = re.split(r"\{(\w+)\}", path)
    expression = [re.escape(one) for one in parts]
    expression[1::2] = [f"(?P<{one}>[^/]+)" for one in parts[1::2]]
    return re.compile("".join(expression), re.IGNORECASE)


def look_up(body: Any, place: str) -> Any:
    """Returns the value at a place such as ``config.labels``; None if a part is missing."""
    for key in place.split("."):
        body = body.get(key) if isinstance(body, Mapping) else None
    return body


def resolve(part: Any, value_of: Callable[[str], Any]) -> Any:
    """Returns a body without markers.

    ``{"$ref": NAME}`` is a value that exists after earlier steps only, ``{"$after_seconds": NUMBER}`` the
    time that many seconds from now, ISO 8601 in UTC.
    """
    if isinstance(part, Mapping):
        if set(part) == {"$ref"}:
            return value_of(part["$ref"])
        if set(part) == {"$after_seconds"}:
            at = utc_moment() + dt.timedelta(seconds=part["$after_seconds"])
            return at.strftime("%Y-%m-%dT%H:%M:%SZ")
        return {key: resolve(one, value_of) for key, one in part.items()}
    return [resolve(one, value_of) for one in part] if isinstance(part, list | tuple) else part


class Transport(Protocol):
    """Requests of one cloud: the SDK's login, retries of outages and throttling, one table of errors.

    All methods raise `CredentialsError` for a missing login or permission and `LaunchError` when the cloud
    refuses or does not answer.
    """

    def get(self, kind: Kind, name: str) -> Body | None:
        """Returns the description of a resource; None if it is absent."""

    def create(self, kind: Kind, step: Step, body: Any) -> None:
        """Sends a step's request; a resource that exists, as after a lost response, is no error.

        Raises:
            BusyError: Another operation has to end first.
            CapacityError: No machine of this type, or no quota.
        """

    def delete(self, kind: Kind, name: str) -> None:
        """Requests deletion; an absent resource is no error."""


def ask(service: str, listed: Callable[[], Listing]) -> Listing:
    """Returns what a service lists; one that refuses or does not answer keeps no other from being listed."""
    try:
        found = listed()
    except (DeniedError, LaunchError) as error:
        return Listing(silent=(f"{service} ({error})",))
    return Listing(found, (f"{one} ({service})" for one in found.silent))
