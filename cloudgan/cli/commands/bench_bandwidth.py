"""`cloudgan bench bandwidth`: bandwidth between ranks, and the islands that it shows."""

from __future__ import annotations

from cloudgan.cli.views.output import (
    check_report,
    print_json,
    print_table,
    progress_bars,
    write_report_file,
)
from cloudgan.core.command import command
from cloudgan.schema.options.bench import BenchBandwidthOptions


@command
def bandwidth(options: BenchBandwidthOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    from cloudgan.bench.bandwidth import (
        advice,
        bandwidth_json,
        bandwidth_page,
        bandwidth_tables,
        measure_bandwidth,
    )

    check_report(options.report)
    with progress_bars(as_json=as_json) as progress:
        found = measure_bandwidth(
            options.ranks, options.preset, rounds=options.rounds, progress=progress
        )
    if found is None:
        return  # rank 0 prints
    if options.report:
        write_report_file(bandwidth_page(found), options.report)
    if as_json:
        print_json(bandwidth_json(found))
        return
    for table in bandwidth_tables(found):
        print_table(table)
    print(advice(found))
