"""`cloudgan check`: login, permissions and quota of cloud accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.api.launch_options import CheckOptions
from cloudgan.cli.views.output import mark_printed, print_json, print_table
from cloudgan.core.command import command
from cloudgan.core.errors import CredentialsError
from cloudgan.reports.table import Mark, Table

if TYPE_CHECKING:
    from cloudgan.launch.ops.preflight import PreflightReport

_MARKS = {"ok": True, "missing": False, "unknown": None}


@command
def check(options: CheckOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    from cloudgan.api.accounts import check_accounts

    found = check_accounts(
        options.provider,
        accelerator=options.accelerator,
        nodes=options.nodes,
        offer=options.price_as,
        reservation=options.reservation,
        provisioning=options,
    )
    is_ready = any(one.is_ready for one in found)
    if as_json:
        clouds = {
            one.provider: {
                "ready": one.is_ready,
                "findings": [finding._asdict() for finding in one.findings],
            }
            for one in found
        }
        print_json({"ready": is_ready, "clouds": clouds})
    else:
        print_table(_table(found))
    if not is_ready:
        subject = f"{options.provider} is not" if options.provider else "no cloud is"
        error = CredentialsError(f"{subject} ready: see the findings with status missing")
        raise mark_printed(error, as_json=as_json)


def _table(found: list[PreflightReport]) -> Table:
    rows = [
        (
            one.provider,
            finding.subject,
            Mark(_MARKS[finding.status], finding.status),
            finding.message,
        )
        for one in found
        for finding in one.findings
    ]
    return Table(("cloud", "subject", "status", "message"), tuple(rows))
