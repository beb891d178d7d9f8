"""What attempts at a run leave for the plan of the next one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.plan import Plan


@dataclass(frozen=True)
class Past:
    """Attempts that ended before the run did.

    Attributes:
        first: Plan of the first one: what stays the same is the same as there; None: none was.
        excluded: Why an offer is out of the question now, by its name.
        stores: Of the run, by the cloud: one cloud has one.
        offer: That is taken if it is still what was asked for; None: whichever is best.
    """

    first: Plan | None = None
    excluded: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)
    offer: str | None = None

    def after(self, plan: Plan, why: str) -> Past:
        """Returns the past of the attempt that follows one that ended for want of room."""
        excluded = {**self.excluded, plan.price.offer: why} if plan.price else self.excluded
        return replace(
            self,
            first=self.first or plan,
            excluded=excluded,
            stores={plan.place.provider: plan.store, **self.stores},
            offer=None,
        )


NOTHING_TRIED = Past()
