"""`cloudgan offers`: nodes by price and epoch time, and the best options for a job."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from cloudgan.cli.views.output import check_report, print_json, print_table, write_report_file
from cloudgan.core.command import command
from cloudgan.core.errors import PlanError
from cloudgan.core.local_path import local_path
from cloudgan.core.printable import printable
from cloudgan.cost.estimation.spot import Preemption
from cloudgan.schema.options.money import OffersOptions

if TYPE_CHECKING:
    from cloudgan.api.offers import OffersReport

MOST_ROWS = 8
_WIDTH = 120


@command
def offers(options: OffersOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    check_report(options.report)
    from cloudgan.api import offers as api

    found = api.offers(
        accelerator=options.accelerator,
        provider=options.provider,
        region=options.region,
        market=options.market,
        epochs=options.epochs,
        max_hours=options.max_hours,
        budget_usd=options.budget_usd,
        run=options.run,
        price_file=local_path(options.price_file, source="--price-file")
        if options.price_file
        else None,
        measured=options.measured,
        preemption=Preemption(
            options.losses_per_node_hour, options.restart_seconds, options.checkpoint_seconds
        ),
        all_options=options.all or options.report is not None,
    )
    if options.report is not None:
        from cloudgan.cli.views.offers_page import offers_page

        write_report_file(offers_page(found), options.report)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        _print(found, carbon=options.carbon, everything=options.all)
    if found.choice is not None and found.choice.chosen is None:
        raise SystemExit(PlanError.exit_code)


def _print(found: OffersReport, *, carbon: bool, everything: bool) -> None:
    from cloudgan.cli.views.offers_page import summary_lines, verdict_lines

    verdict, command = verdict_lines(found)
    print(textwrap.fill(printable(verdict), _WIDTH))
    print(printable(command))
    most = len(found.offers) if everything else MOST_ROWS
    table = found.carbon_table(most) if carbon else found.table(most)
    print_table(table, width=_WIDTH)
    for line in summary_lines(found):
        print(textwrap.fill(printable(line), _WIDTH, subsequent_indent="  "))
