"""Which wheels the pods of a public image install."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan, Wheel
    from cloudgan.core.progress import Progress


def pod_wheels() -> tuple[Wheel, ...]:
    """Returns cloudgan's own wheel and those of the pod lock."""
    return ()


def upload_wheels(plan: Plan, progress: Progress) -> None:
    """Brings to the store what it lacks of the plan's wheels."""
