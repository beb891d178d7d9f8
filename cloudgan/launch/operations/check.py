"""The command `check`: login, permissions and quota of cloud accounts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from cloudgan.core.clock import utc_today
from cloudgan.core.clouds import CLOUDS
from cloudgan.core.command import command
from cloudgan.core.errors import CloudganError, CredentialsError, PlanError
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.planner import open_cloud
from cloudgan.launch.clouds.resource import Finding
from cloudgan.launch.operations.cloud_queries import disable_unless_reachable, run_concurrently
from cloudgan.launch.operations.launch_options import CheckOptions
from cloudgan.launch.operations.targets import account_target
from cloudgan.launch.plan.flags import NodeFlags
from cloudgan.launch.plan.launch_plan import make_launch_plan
from cloudgan.launch.plan.request import LaunchRequest
from cloudgan.money.catalog import load_catalog
from cloudgan.reports.result import Result, View
from cloudgan.schema.options.shared import RunLocator
from cloudgan.schema.plan import Plan, Target, fill_placeholders
from cloudgan.schema.price_row import UNKNOWN_DATE

_CONTACT_SECONDS = 10.0
"""Until each login has answered; without a network an SDK retries for minutes."""


_SIGNS = {"ok": "✓", "missing": "✗", "unknown": "?"}


class AccountCheck(Result):
    """Login, permissions and quota of the accounts in the clouds."""

    provider: str | None = Field(description="the only one that was checked; None: all")
    clouds: dict[str, tuple[Finding, ...]] = Field(description="findings by cloud, the login first")

    @property
    def is_ready(self) -> bool:
        """Whether nothing is missing in one of the clouds."""
        return any(map(_is_ready, self.clouds.values()))

    def as_json(self) -> dict[str, Any]:
        """Returns the findings by cloud."""
        clouds = {
            name: {"ready": _is_ready(its), "findings": [finding._asdict() for finding in its]}
            for name, its in self.clouds.items()
        }
        return {"schema_version": self.schema_version, "ready": self.is_ready, "clouds": clouds}

    def view(self) -> View:
        """Returns a line per ready cloud, and one per finding that is not ok, with what mends it."""
        lines, fine = [], []
        for name, its in self.clouds.items():
            title = f"{CLOUDS[name].title:<5}"
            good = [finding for finding in its if finding.status == "ok"]
            if _is_ready(its):
                lines.append(f"✓ {title} ready: {good[0].message if good else ''}".rstrip(": "))
            lines += [_finding(title, bad) for bad in its if bad.status != "ok"]
            fine += [_finding(title, finding) for finding in good]
        return View("\n".join(lines), basis=tuple(fine))

    def problem(self) -> CloudganError | None:
        """Returns the error that no cloud is ready."""
        if self.is_ready:
            return None
        subject = f"{self.provider} is not" if self.provider else "no cloud is"
        return CredentialsError(f"{subject} ready: mend what has the sign ✗")


def _is_ready(findings: Iterable[Finding]) -> bool:
    return all(one.status != "missing" for one in findings)


def _finding(title: str, finding: Finding) -> str:
    return f"{_SIGNS[finding.status]} {title} {finding.subject}: {finding.message}"


@command
def check(options: CheckOptions) -> AccountCheck:
    """Checks login, APIs, permissions and quota of each cloud; creates nothing.

    Raises:
        ConfigError: A value is not valid.
    """
    disable_unless_reachable()
    provider, offer = options.provider, options.price_as
    names = tuple(CLOUDS) if provider is None else (provider,)

    def quota_plan(name: str) -> Plan | PlanError | None:
        if options.accelerator is None and offer is None:
            return None
        if offer and not offer.startswith(f"{name}/"):
            return PlanError(f"--price-as={offer} is an offer of another cloud")
        own = {key: getattr(options, key) for key in NodeFlags.model_fields}
        request = LaunchRequest(
            **own,
            provider=name,
            name="check",
            accelerator=options.accelerator,
            nodes=options.nodes,
            price_as=offer,
            reservation_name=options.reservation,
            run_keys={"training.max_steps": 1},  # whether a training ends in time is not asked here
        )
        try:
            return make_launch_plan(request, lambda *_: ())
        except PlanError as error:
            return error

    plans = {name: quota_plan(name) for name in names}
    opened = run_concurrently(
        names, lambda name: _open(name, plans[name], options), _CONTACT_SECONDS
    )

    def findings(name: str) -> tuple[Finding, ...]:
        found = opened[name]
        if isinstance(found, CloudganError):
            raise found
        return _findings(name, plans[name], *found)

    answers = run_concurrently(names, findings)
    found = {
        name: (Finding("login", "missing", " ".join(str(answer).split())),)
        if isinstance(answer, CloudganError)
        else answer
        for name, answer in answers.items()
    }
    return AccountCheck(provider=provider, clouds=found)


def _open(name: str, plan: Plan | PlanError | None, flags: NodeFlags) -> tuple[CloudClient, Target]:
    """Opens a cloud whose login answers."""
    region = next(iter(flags.regions_in(name)), None)
    account = RunLocator(name, project=flags.account, profile=flags.profile, region=region)
    target = plan.target if isinstance(plan, Plan) else account_target(account)
    cloud = open_cloud(target)
    cloud.identify()
    return cloud, target


def _findings(
    name: str, plan: Plan | PlanError | None, cloud: CloudClient, target: Target
) -> tuple[Finding, ...]:
    wanted = plan if isinstance(plan, Plan) else None
    found = check_cloud(cloud, wanted, target.region, utc_today())
    if plan is None:
        rows = load_catalog().find(provider=name)
        dates = sorted(row.date for row in rows if row.date != UNKNOWN_DATE)
        age = f"{len(dates)} with a date, the newest {dates[-1]}" if dates else "none with a date"
        hint = "quota and price of one: --accelerator=v100:8 --nodes=2"
        status: Literal["ok", "unknown"] = "ok" if dates else "unknown"
        return (*found, Finding("prices", status, f"{len(rows)} offers, {age}; {hint}"))
    if isinstance(plan, PlanError):
        return (*found, Finding("offer", "missing", str(plan)))
    return found


def check_cloud(
    cloud: CloudClient, plan: Plan | None, region: str | None, today: dt.date
) -> tuple[Finding, ...]:
    """Checks login, APIs, permissions and, for a plan, target, quota and price; an old price is unknown."""
    if plan is None:
        return cloud.check(None, region)
    unplaced: tuple[Finding, ...] = ()
    try:
        plan = fill_placeholders(plan, cloud.resolve_placeholders(plan))
    except CredentialsError:
        raise
    except CloudganError as error:  # continue with login and permissions
        unplaced = (Finding("target", "missing", str(error)),)
    found = (*cloud.check(None if unplaced else plan, plan.target.region), *unplaced)
    row = plan.price
    if row is None:
        return found
    says = f"{row.usd_per_hour:.4g} USD/h per node, {row.age_text(today)}"
    if not row.is_stale(today):
        return (*found, Finding(f"price of {row.offer}", "ok", says))
    says = f"{says}; cloudgan prices refresh --provider={row.provider}"
    return (*found, Finding(f"price of {row.offer}", "unknown", says))
