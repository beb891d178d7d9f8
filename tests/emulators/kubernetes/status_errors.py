"""Error responses of a Kubernetes API as Status objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emulators.kubernetes.resources import Resource

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


class Refusal(Exception):
    """A request that is answered with a Status of failure."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str | None = None,
        details: dict[str, Any] | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason or REASONS[code]
        self.details = dict(details or {})
        self.retry_after_seconds = retry_after_seconds
        if retry_after_seconds is not None:
            self.details["retryAfterSeconds"] = retry_after_seconds

    @property
    def body(self) -> dict[str, Any]:
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        return status | ({"details": self.details} if self.details else {})


def _details(resource: Resource, name: str, **more: Any) -> dict[str, Any]:
    group = {"group": resource.group} if resource.group else {}
    return {"name": name, **group, "kind": resource.plural, **more}


def no_such_path() -> Refusal:
    return Refusal(404, "the server could not find the requested resource")


def not_found(resource: Resource, name: str) -> Refusal:
    details = _details(resource, name)
    return Refusal(404, f'{resource.qualified} "{name}" not found', details=details)


def already_exists(resource: Resource, name: str) -> Refusal:
    text = f'{resource.qualified} "{name}" already exists'
    return Refusal(409, text, reason="AlreadyExists", details=_details(resource, name))


def conflict(resource: Resource, name: str, why: str = "") -> Refusal:
    why = why or (
        "the object has been modified; please apply your changes to the latest version and try again"
    )
    text = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return Refusal(409, text, details=_details(resource, name))


def forbidden(resource: Resource, name: str, why: str) -> Refusal:
    named = f'{resource.qualified} "{name}"' if name else resource.qualified
    return Refusal(403, f"{named} is forbidden: {why}", details=_details(resource, name))


def invalid(resource: Resource, name: str, causes: list[tuple[str, str]]) -> Refusal:
    """Refuses by the rules of the kind; `causes` are pairs of field and message."""
    outcome = [f"{field}: {message}" for field, message in causes]
    shown = outcome[0] if len(outcome) == 1 else f"[{', '.join(outcome)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = {"name": name, "group": resource.group, "kind": resource.kind}
    details["causes"] = [
        {"reason": "FieldValueInvalid", "message": message, "field": field}
        for field, message in causes
    ]
    return Refusal(422, f'{kind} "{name}" is invalid: {shown}', details=details)
