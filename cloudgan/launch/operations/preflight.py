"""Preflight checks of a cloud account before a run; read-only."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from cloudgan.core.errors import CloudganError, CredentialsError
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.schema.plan import Plan, fill_placeholders
from cloudgan.schema.price_row import UNKNOWN_DATE, PriceRow
from cloudgan.schema.resource import Finding


@dataclass(frozen=True)
class PreflightReport:
    """Findings of one cloud.

    Attributes:
        provider: Cloud.
        findings: Login first.
    """

    provider: str
    findings: tuple[Finding, ...]

    @property
    def is_ready(self) -> bool:
        """Whether no finding is missing."""
        return all(one.status != "missing" for one in self.findings)


def check_cloud(
    cloud: CloudClient, plan: Plan | None, region: str | None, today: dt.date
) -> tuple[Finding, ...]:
    """Checks login, APIs, permissions and, for a plan, target, quota and price.

    Args:
        cloud: Cloud client.
        plan: None: general checks.
        region: Without a plan.
        today: For the age of a price.

    Raises:
        CloudganError: The cloud cannot be queried.
    """
    if plan is None:
        return cloud.check(None, region)
    unplaced: tuple[Finding, ...] = ()
    try:
        plan = fill_placeholders(plan, cloud.resolve_placeholders(plan))
    except CredentialsError:
        raise
    except CloudganError as error:  # continue with login and permissions
        unplaced = (Finding("target", "missing", str(error)),)
    found = cloud.check(None if unplaced else plan, plan.target.region)
    price = (price_finding(plan.price, today),) if plan.price else ()
    return (*found, *unplaced, *price)


def price_finding(row: PriceRow, today: dt.date) -> Finding:
    """Returns the finding of a price and its age; a stale price is unknown."""
    says = f"{row.usd_per_hour:.4g} USD/h per node, {row.age_text(today)}"
    if not row.is_stale(today):
        return Finding(f"price of {row.offer}", "ok", says)
    source = f" --provider={row.provider}"
    return Finding(f"price of {row.offer}", "unknown", f"{says}; cloudgan prices refresh{source}")


def prices_finding(rows: Sequence[PriceRow]) -> Finding:
    """Returns the finding of the ages of a cloud's prices, without an offer."""
    dates = sorted(row.date for row in rows if row.date != UNKNOWN_DATE)
    age = f"{len(dates)} with a date, the newest {dates[-1]}" if dates else "none with a date"
    hint = "quota and price of one: --accelerator=v100:8 --nodes=2"
    return Finding("prices", "ok" if dates else "unknown", f"{len(rows)} offers, {age}; {hint}")


def login_error_finding(error: CloudganError) -> tuple[Finding, ...]:
    """Returns the finding of a cloud that cannot be queried."""
    return (Finding("login", "missing", " ".join(str(error).split())),)
