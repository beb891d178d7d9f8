"""The step that every cloud's plans have: what is meant is written before anything that bills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.plan import Step

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan


def intent_step(plan: Plan) -> Step:
    """Returns the step that writes a run's intent to its store."""
    return Step(
        ensure=f"intent of run {plan.run}",
        method="PUT",
        path=f"{plan.store}/runs/{plan.run}/intent/",
        at="store",
    )
