"""`cloudgan check`: what is missing before a run can start on a cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.cli.launch_flags import launch_flags
from cloudgan.cli.output import show_json, shown_after
from cloudgan.cli.rent_flags import NOTHING_RENTED, RentFlags, rent_flags
from cloudgan.cli.shared_flags import with_flags
from cloudgan.core.errors import ConfigError, CredentialsError, PlanError
from cloudgan.core.plan import CLOUDS, CloudName

if TYPE_CHECKING:
    from cloudgan.auditing.checking import Checked
    from cloudgan.core.plan import Plan
    from cloudgan.launching.cloud import Finding
    from cloudgan.reports.table import Table

_MARKS = {"ok": True, "missing": False, "unknown": None}


@with_flags(rent=rent_flags)
def check(
    *,
    provider: CloudName | None = None,
    accelerator: str | None = None,
    nodes: int = 1,
    as_: str | None = None,
    json: bool = False,
    rent: RentFlags = NOTHING_RENTED,
) -> None:
    """Tells for each cloud whose login is found, and which APIs, rights and quota are missing.

    Makes nothing and spends nothing. Quota is asked for what --accelerator names, in the region and
    market where it is cheapest, or as --region and --spot say. Ends with exit code 2 where something
    is missing: of the cloud that --provider names, else of every cloud.

    Args:
        provider: gcp, aws or azure. Default: all three.
        accelerator: NAME or NAME:COUNT in each node, such as v100:8.
        nodes: How many.
        as_: Offer instead, such as gcp/n1-standard-8+1xV100/us-central1/spot.
        json: Print the result as JSON.
        rent: Where and how, from the flags that commands share.
    """
    from cloudgan.auditing.metadata_server import forget_unless_there
    from cloudgan.auditing.side_by_side import side_by_side

    asked = {"accelerator": accelerator, "nodes": nodes, "as_": as_}
    forget_unless_there()
    _check_fit(provider, rent)
    names: tuple[CloudName, ...] = CLOUDS if provider is None else (provider,)
    plans = {name: _plan(name, asked, rent) for name in names}
    answers = side_by_side(names, lambda name: _ask(name, plans[name], rent))
    found = [_checked(name, answers[name]) for name in names]
    is_fine = any(one.is_fine for one in found)
    if json:
        show_json({"fine": is_fine, "clouds": {one.provider: _json(one) for one in found}})
    else:
        from cloudgan.cli.table_view import show_table

        show_table(_table(found))
    if not is_fine:
        whose = f"{provider} is not" if provider else "no cloud is"
        error = CredentialsError(f"{whose} ready: see what is marked as missing")
        raise shown_after(error, as_json=json)


def _check_fit(provider: str | None, rent: RentFlags) -> None:
    if provider is None and (rent.regions or rent.zone):
        raise ConfigError("--region and --zone are in one cloud: add --provider=gcp, aws or azure")


def _plan(name: str, asked: dict[str, Any], rent: RentFlags) -> Plan | PlanError | None:
    """The plan whose quota is asked for; an error where the cloud has nothing of the kind."""
    if asked["accelerator"] is None and asked["as_"] is None:
        return None
    from cloudgan.cli.launch_plan import planned

    if asked["as_"] and not asked["as_"].startswith(f"{name}/"):
        return PlanError(f"--as={asked['as_']} is an offer of another cloud")
    try:
        flags = launch_flags(provider=name, name="check", **asked)  # type: ignore[arg-type]
        return planned(flags, rent, ({}, None), lambda _: ())
    except PlanError as error:
        return error


def _ask(name: CloudName, plan: Plan | PlanError | None, rent: RentFlags) -> tuple[Finding, ...]:
    from cloudgan.auditing.checking import check_cloud
    from cloudgan.cli.launch_flags import Where
    from cloudgan.cli.rent_flags import within_zone
    from cloudgan.cli.rented_place import account_place
    from cloudgan.core.clock import utc_today
    from cloudgan.launching.cloud import Finding
    from cloudgan.providers.clouds import open_cloud

    regions = within_zone(rent, name).regions
    region = regions[0] if regions else None
    said = Where(name, project=rent.account, profile=rent.profile, region=region)
    nothing_sold = isinstance(plan, PlanError)
    place = account_place(said) if plan is None or isinstance(plan, PlanError) else plan.place
    wanted = None if isinstance(plan, PlanError) else plan
    found = check_cloud(open_cloud(place), wanted, place.region, utc_today())
    if plan is None:
        found = (*found, _prices(name))
    return (*found, Finding("offer", "missing", str(plan))) if nothing_sold else found


def _prices(name: str) -> Finding:
    from cloudgan.auditing.checking import prices_finding
    from cloudgan.cost.catalog import load_catalog

    return prices_finding(load_catalog().find(provider=name))


def _checked(name: str, answer: Any) -> Checked:
    from cloudgan.auditing.checking import Checked, unasked

    return Checked(name, answer if isinstance(answer, tuple) else unasked(answer))


def _table(found: list[Checked]) -> Table:
    from cloudgan.reports.table import Mark, Table

    rows = [
        (
            one.provider,
            finding.subject,
            Mark(_MARKS[finding.verdict], finding.verdict),
            finding.says,
        )
        for one in found
        for finding in one.findings
    ]
    return Table(("cloud", "what", "verdict", "found"), tuple(rows))


def _json(one: Checked) -> dict[str, Any]:
    return {"fine": one.is_fine, "findings": [finding._asdict() for finding in one.findings]}
