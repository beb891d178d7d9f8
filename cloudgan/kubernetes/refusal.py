"""What an API server refuses, as our errors: what was asked, what it said, what to type next."""

from __future__ import annotations

import json
from typing import Any

from cloudgan.core.errors import CapacityError, CloudganError, ConfigError, CredentialsError

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT, _GONE = 401, 403, 404, 409, 410
_INVALID, _TOO_MANY, _SERVER = 422, 429, 500


class ApiError(CloudganError):
    """A cluster answered with an error; `status` is HTTP's, 0 where nothing answered."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class AlreadyThereError(ApiError):
    """An object of this name exists."""


class GoneError(ApiError):
    """The place in the history that a watch should go on from is forgotten."""


def passes(status: int) -> bool:
    """Whether the same request may succeed a little later."""
    return status == _TOO_MANY or status >= _SERVER


def refusal(status: int, body: bytes, asked: str) -> CloudganError:
    """Returns the error that an answer means.

    Args:
        status: Of HTTP.
        body: A Status of Kubernetes, or anything.
        asked: Such as ``POST /api/v1/namespaces/x/pods``.
    """
    said = _said(body)
    if status == _UNAUTHORIZED:
        return CredentialsError(
            f"the cluster does not accept this login ({said}): the token has expired or is not its"
            " own. Log in again, as `kubectl get pods` would need it, and give the same command"
        )
    if status == _FORBIDDEN:
        return _forbidden(asked, said)
    if status == _NOT_FOUND and said.startswith("namespaces ") and _is_inside(asked):
        return ConfigError(f"{asked}: {said}. Take another --namespace, or let it be made")
    if status == _INVALID:
        return ConfigError(f"the cluster does not accept this manifest: {said}")
    kind = {_CONFLICT: AlreadyThereError, _GONE: GoneError}.get(status)
    if kind:
        return kind(f"{asked}: {said}", status)
    return ApiError(f"{asked}: the cluster answered {status} ({said})", status)


def _is_inside(asked: str) -> bool:
    """Whether something in a namespace was asked for, not the namespace itself."""
    return "/" in asked.partition("/namespaces/")[2]


def _forbidden(asked: str, said: str) -> CloudganError:
    if "exceeded quota" in said:
        return CapacityError(f"{asked}: {said}. Ask for a larger quota, or for less")
    return CredentialsError(
        f"{asked}: {said}. deploy/kubernetes/role.yaml lists the rights that a launcher needs; an"
        " administrator grants them, or take another --namespace"
    )


def _said(body: bytes) -> str:
    try:
        found: Any = json.loads(body)
        return " ".join(found["message"].split())
    except (ValueError, KeyError, TypeError, AttributeError):
        text = " ".join(body.decode(errors="replace").split())
        return text[:200] or "without a word"
