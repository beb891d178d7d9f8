"""What is missing before a run can start: asked of a cloud, and nothing made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.core.dated_fact import UNKNOWN_DATE
from cloudgan.core.errors import CloudganError, CredentialsError
from cloudgan.core.plan import filled
from cloudgan.cost.age import age_text, is_stale
from cloudgan.launching.cloud import Finding

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from cloudgan.core.plan import Plan
    from cloudgan.core.price_row import PriceRow
    from cloudgan.launching.cloud import Cloud


@dataclass(frozen=True)
class Checked:
    """The answers of one cloud.

    Attributes:
        provider: Which.
        findings: Login first.
    """

    provider: str
    findings: tuple[Finding, ...]

    @property
    def is_fine(self) -> bool:
        """Whether nothing is known to be missing."""
        return all(one.verdict != "missing" for one in self.findings)


def check_cloud(
    cloud: Cloud, plan: Plan | None, region: str | None, today: dt.date
) -> tuple[Finding, ...]:
    """Asks a cloud for login, APIs, rights and, for a plan, place and quota; then for its price.

    Args:
        cloud: That somebody is logged in to.
        plan: For which; None: in general.
        region: Where, when there is no plan.
        today: To which the age of a price is counted.

    Raises:
        CloudganError: It cannot be asked.
    """
    if plan is None:
        return cloud.check(None, region)
    unplaced: tuple[Finding, ...] = ()
    try:
        plan = filled(plan, cloud.known(plan))
    except CredentialsError:
        raise
    except CloudganError as error:  # login and rights are worth knowing all the same
        unplaced = (Finding("place", "missing", str(error)),)
    found = cloud.check(None if unplaced else plan, plan.place.region)
    price = (price_finding(plan.price, today),) if plan.price else ()
    return (*found, *unplaced, *price)


def price_finding(row: PriceRow, today: dt.date) -> Finding:
    """Tells a price and how old it is; an old one is not known to hold."""
    says = f"{row.usd_per_hour:.4g} USD/h per node, {age_text(row, today)}"
    if not is_stale(row, today):
        return Finding(f"price of {row.offer}", "ok", says)
    source = f" --source={row.provider}"
    return Finding(f"price of {row.offer}", "unknown", f"{says}; cloudgan prices refresh{source}")


def prices_finding(rows: Sequence[PriceRow]) -> Finding:
    """Tells how old a cloud's prices are when nobody named an offer."""
    dates = sorted(row.date for row in rows if row.date != UNKNOWN_DATE)
    age = f"{len(dates)} with a date, the newest {dates[-1]}" if dates else "none with a date"
    hint = "quota and price of one: --accelerator=v100:8 --nodes=2"
    return Finding("prices", "ok" if dates else "unknown", f"{len(rows)} offers, {age}; {hint}")


def unasked(error: CloudganError) -> tuple[Finding, ...]:
    """Tells of a cloud that could not be asked, in one line."""
    return (Finding("login", "missing", " ".join(str(error).split())),)
