"""`cloudgan offers`: nodes by price and epoch time, and the best options for a job."""

from __future__ import annotations

from typing import Literal

from cloudgan.cli.views.output import check_report, mark_printed, print_view, write_report_file
from cloudgan.core.local_path import local_path
from cloudgan.cost.estimation.spot import Preemption


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
    price_file: str | None = None,
    measured: bool = False,
    carbon: bool = False,
    all: bool = False,  # noqa: A002  the flag
    losses_per_node_hour: float | None = None,
    restart_seconds: float = Preemption().restart_seconds,
    checkpoint_seconds: float = Preemption().checkpoint_seconds,
    json: bool = False,
    report: str | None = None,
) -> None:
    """Recommends an offer: by the cost of an epoch, or with --epochs of a whole job, as `plan` does.

    The verdict is first; at most eight rows follow: cheapest, fastest, best within the limits and
    safest, measured and modelled. Exit code 5: nothing fits, and the smallest change that would.
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
        price_file: YAML file with the prices of your own nodes, which are listed too.
        measured: Only accelerators with a measured throughput of this network.
        carbon: Show the emissions of an epoch, the lowest first.
        all: Show every offer, or the cheapest option of each configuration of a job.
        losses_per_node_hour: Preemptions of a spot node per hour. Default: of public traces of its
            cloud and accelerator, else 1/24.
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
        price_file=local_path(price_file, source="--price-file") if price_file else None,
        measured=measured,
        preemption=Preemption(losses_per_node_hour, restart_seconds, checkpoint_seconds),
        all_options=report is not None,
        shows_all=all,
        ranked_by="carbon" if carbon else "usd",
    )
    if report is not None:
        from cloudgan.cli.views.offers_page import offers_page

        write_report_file(offers_page(found), report)
    print_view(found, as_json=json)
    if problem := found.problem():
        raise mark_printed(problem, as_json=json)
