"""The failed attempts of a run, which the next plan respects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cloudgan.schema.plan import Plan


@dataclass(frozen=True)
class AttemptHistory:
    """The failed attempts of a run, as constraints on the next plan.

    Attributes:
        first: Plan of the first attempt, whose batch and accelerators later ones keep.
        excluded: Reason by excluded offer.
        stores: Store of the run by cloud; each cloud has one.
        offer: Offer to prefer if it still matches the request; None: the best one.
    """

    first: Plan | None = None
    excluded: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)
    offer: str | None = None

    def after(self, plan: Plan, why: str) -> AttemptHistory:
        """Returns the history with one more failed attempt."""
        excluded = {**self.excluded, plan.price.offer: why} if plan.price else self.excluded
        return replace(
            self,
            first=self.first or plan,
            excluded=excluded,
            stores={plan.target.provider: plan.store, **self.stores},
            offer=None,
        )


NO_ATTEMPTS = AttemptHistory()
