"""`cloudgan compare`: runs side by side, or those of the paper."""

from __future__ import annotations

import glob
import textwrap

from cloudgan.api import compare as api
from cloudgan.api.quality_comparison import cost_to_quality
from cloudgan.api.scaling_comparison import compare_scaling, published_scaling
from cloudgan.api.scaling_page import scaling_page, sentences, tables
from cloudgan.cli.views.output import check_report, print_json, print_table, write_report_file
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.schema.options.money import CompareOptions
from cloudgan.schema.run_folder import RunFolder

_COLUMNS = 120


@command
def compare(options: CompareOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    if bool(options.runs) == options.paper:
        raise ConfigError("nothing to compare: give folders of runs, such as 'runs/*', or --paper")
    if options.to_quality and options.paper:
        raise ConfigError("--to-quality needs your own runs: the paper's have no acceptance gates")
    if options.until is not None and not options.to_quality:
        raise ConfigError(f"--until={options.until} needs --to-quality")
    if options.to_quality and options.scaling:
        raise ConfigError("--to-quality and --scaling are two comparisons: give one of them")
    check_report(options.report)
    if options.scaling:
        _compare_scaling(
            None if options.paper else options.runs,
            options.price_as,
            options.report,
            as_json=as_json,
        )
    elif options.paper:
        _compare_paper(options.report, as_json=as_json)
    elif options.to_quality:
        _compare_to_quality(
            _folders(options.runs or ""),
            options.until,
            options.price_as,
            options.report,
            as_json=as_json,
        )
    else:
        _compare_runs(
            _folders(options.runs or ""), options.price_as, options.report, as_json=as_json
        )


def _compare_runs(
    folders: list[str], price_as: str | None, report: str | None, *, as_json: bool
) -> None:
    result = api.compare(folders, price_as=price_as)
    if report:
        write_report_file(result.page(), report)
    if as_json:
        print_json(result.as_json())
        return
    print_table(result.table())
    for line in result.recommendations():
        print(f"recommendation for {line}")


def _compare_to_quality(
    folders: list[str],
    until: str | None,
    price_as: str | None,
    report: str | None,
    *,
    as_json: bool,
) -> None:
    found = cost_to_quality(folders, until=until, price_as=price_as)
    if report:
        write_report_file(found.page(), report)
    if as_json:
        print_json(found.as_json())
        return
    for table in found.tables():
        print_table(table, width=_COLUMNS)


def _compare_scaling(
    runs: str | None, price_as: str | None, report: str | None, *, as_json: bool
) -> None:
    if runs is None:
        found = published_scaling()
    else:
        found = compare_scaling(_folders(runs), price_as=price_as)
    if report:
        write_report_file(scaling_page(found), report)
    if as_json:
        print_json(found.as_json())
        return
    for table in tables(found):
        print_table(table)
    for line in sentences(found):
        print(line)


def _compare_paper(report: str | None, *, as_json: bool) -> None:
    replayed = api.replay_paper()
    if report:
        write_report_file(api.paper_page(replayed), report)
    if as_json:
        print_json(replayed.model_dump(mode="json"))
        return
    for line in (replayed.statement, f"Basis: {replayed.basis}."):
        print(textwrap.fill(line, _COLUMNS))
    for table in (*api.paper_screens(replayed), api.findings_table(replayed)):
        print_table(table)


def _folders(named: str) -> list[str]:
    paths: list[str] = []
    for part in named.split(","):
        # Path.glob takes no absolute pattern.
        found = sorted(glob.glob(part)) if glob.has_magic(part) else [part]  # noqa: PTH207
        paths += [path for path in found if part == path or RunFolder(path).record_file.exists()]
    if not paths:
        raise ConfigError(f"{named}: no folder matches that holds a run (record.jsonl)")
    return list(dict.fromkeys(paths))
