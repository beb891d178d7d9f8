"""`cloudgan offers`: nodes by price and epoch time, and the best options for a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cloudgan.cli.views.output import check_report, print_json, print_table, write_report_file
from cloudgan.cost.estimation.spot import Preemption

if TYPE_CHECKING:
    from cloudgan.api.offers import OffersReport


def offers(
    *,
    accelerator: str | None = None,
    provider: str | None = None,
    region: str | None = None,
    market: Literal["on_demand", "spot"] | None = None,
    epochs: int | None = None,
    max_hours: float | None = None,
    budget_usd: float | None = None,
    run: str | None = None,
    measured: bool = False,
    carbon: bool = False,
    losses_per_node_hour: float = Preemption().per_node_hour,
    restart_seconds: float = Preemption().restart_seconds,
    checkpoint_seconds: float = Preemption().checkpoint_seconds,
    json: bool = False,
    report: str | None = None,
) -> None:
    """Lists offers by the cost of an epoch; with --epochs also the best options for a job.

    Throughput is that of measured runs: the paper's, or with --run your own. Without a measurement
    it is an interval between the limits of memory bandwidth and arithmetic, and its lower bound
    ranks.

    Args:
        accelerator: Such as h100 or A100-80GB.
        provider: The cloud. Default: every cloud.
        region: Such as us-central1.
        market: on_demand or spot. Default: both.
        epochs: Epochs of a job; shows the best offers and numbers of nodes by time and cost.
        max_hours: Deadline of the job.
        budget_usd: Maximum cost of the job.
        run: Folder of a run whose throughput and network are used, such as runs/NAME.
        measured: Only accelerators with a measured throughput of this network.
        carbon: Show the emissions of an epoch, the lowest first.
        losses_per_node_hour: Assumed preemptions of a spot node per hour.
        restart_seconds: Time from a preemption until training continues.
        checkpoint_seconds: Time to save a checkpoint.
        json: Print the result as JSON.
        report: Write the result to this file: .html, .md or .csv.
    """
    check_report(report)
    from cloudgan.api import offers as api

    found = api.offers(
        accelerator=accelerator,
        provider=provider,
        region=region,
        market=market,
        epochs=epochs,
        max_hours=max_hours,
        budget_usd=budget_usd,
        run=run,
        measured=measured,
        preemption=Preemption(losses_per_node_hour, restart_seconds, checkpoint_seconds),
        all_options=report is not None,
    )
    _print(found, as_json=json, report=report, carbon=carbon)


def _print(found: OffersReport, *, as_json: bool, report: str | None, carbon: bool) -> None:
    from cloudgan.cli.views.offers_page import offers_page, summary_lines

    if report is not None:
        write_report_file(offers_page(found), Path(report))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    print_table(found.carbon_table() if carbon else found.table())
    for line in summary_lines(found):
        print(line)
