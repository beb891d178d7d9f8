"""`cloudgan offers`: nodes by price and epoch time, and the best options for a job."""

from __future__ import annotations

from cloudgan.cli.views.output import write_report_file
from cloudgan.core.command import command
from cloudgan.core.local_path import local_path
from cloudgan.cost.estimation.spot import Preemption
from cloudgan.reports.result import Result
from cloudgan.schema.options.money import OffersOptions


@command
def offers(options: OffersOptions) -> Result:
    """Returns the offers, the chosen one marked."""
    from cloudgan.api import offers as api

    file, losses = options.price_file, options.losses_per_node_hour
    found = api.offers(
        accelerator=options.accelerator,
        provider=options.provider,
        region=options.region,
        market=options.market,
        epochs=options.epochs,
        max_hours=options.max_hours,
        budget_usd=options.budget_usd,
        run=options.run,
        price_file=local_path(file, source="--price-file") if file else None,
        measured=options.measured,
        preemption=Preemption(losses, options.restart_seconds, options.checkpoint_seconds),
        all_options=options.report is not None,
        shows_all=options.all,
        ranked_by="carbon" if options.carbon else "usd",
    )
    if options.report is not None:
        from cloudgan.cli.views.offers_page import offers_page

        write_report_file(offers_page(found), options.report)
    return found
