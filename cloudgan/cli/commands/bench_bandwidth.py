"""`cloudgan bench bandwidth`: bandwidth between ranks, and the islands that it shows."""

from __future__ import annotations

from cloudgan.cli.views.output import (
    check_report,
    print_json,
    print_table,
    progress_bars,
    write_report_file,
)


def bandwidth(
    *,
    ranks: int | None = None,
    preset: str = "paper",
    rounds: int = 10,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Measures the bandwidth from each rank to each, own memory on the diagonal.

    One pair at a time, in turns, with messages of the size of the gradients of a preset and of 1 kB.
    Better-linked islands of ranks are named, with the --group of `train` that fits. Starts the ranks on this
    machine; with `mpiexec -n 8 cloudgan bench bandwidth` or srun it measures those of your site.

    Args:
        ranks: Ranks to start, 2 to 64. Default: 4.
        preset: {presets}.
        rounds: Turns of each pair; fewer if they take longer than 18 s.
        report: File to write as well: .html (with heat maps), .md or .csv.
        json: Print the result as JSON.
    """
    from cloudgan.bench.bandwidth import (
        advice,
        bandwidth_json,
        bandwidth_page,
        bandwidth_tables,
        measure_bandwidth,
    )

    check_report(report)
    with progress_bars(as_json=json) as progress:
        found = measure_bandwidth(ranks, preset, rounds=rounds, progress=progress)
    if found is None:
        return  # rank 0 prints
    if report:
        write_report_file(bandwidth_page(found), report)
    if json:
        print_json(bandwidth_json(found))
        return
    for table in bandwidth_tables(found):
        print_table(table)
    print(advice(found))
