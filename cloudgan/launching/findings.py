"""What a cloud's answers about login, rights and quota mean for a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.errors import CloudganError, CredentialsError, PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.core.thing import Finding


def error_of(missing: Sequence[Finding]) -> CloudganError:
    """Returns one error for all that is missing; a quota alone is no fault of the login."""
    text = "; ".join(f"{one.subject}: {one.says}" for one in missing)
    is_quota = all(one.subject.startswith("quota") for one in missing)
    return PlanError(text) if is_quota else CredentialsError(text)
