"""`cloudgan compare`: runs side by side, or those of the paper."""

from __future__ import annotations

import glob

from cloudgan.api import compare as api
from cloudgan.api.quality_comparison import cost_to_quality
from cloudgan.api.scaling_comparison import compare_scaling, published_scaling
from cloudgan.api.scaling_page import scaling_page, sentences, tables
from cloudgan.cli.views.output import (
    check_report,
    print_json,
    print_table,
    print_view,
    write_report_file,
)
from cloudgan.core.errors import ConfigError
from cloudgan.schema.run_folder import RunFolder

_COLUMNS = 120


def compare(
    runs: str | None = None,
    *,
    paper: bool = False,
    to_quality: bool = False,
    scaling: bool = False,
    until: str | None = None,
    price_as: str | None = None,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Shows runs side by side, or the paper's runs at the prices of 2020/21 and of today.

    Args:
        runs: Folders of runs: a comma list or a quoted glob, such as 'runs/*'.
        paper: Instead: the runs of arXiv:2111.04628, recomputed from their published times.
        to_quality: Time and cost until the acceptance gates of `cloudgan validate` were first passed, with
            the spread over seeds.
        scaling: Speed-up and efficiency over the number of workers, training only and end to end, of runs
            that differ in it only, with Amdahl's serial share; POWER8 and the paper beside them. With
            --paper: these two only.
        until: With --to-quality: instead of the gates, a condition on the validations of
            `cloudgan train --validate-every`, such as "metric<0.15".
        price_as: Offer that prices runs on your own machine (see `cloudgan offers`).
        report: File to write as well: .html, .md or .csv.
        json: Print the result as JSON.
    """
    if bool(runs) == paper:
        raise ConfigError("nothing to compare: give folders of runs, such as 'runs/*', or --paper")
    if to_quality and paper:
        raise ConfigError("--to-quality needs your own runs: the paper's have no acceptance gates")
    if until is not None and not to_quality:
        raise ConfigError(f"--until={until} needs --to-quality")
    if to_quality and scaling:
        raise ConfigError("--to-quality and --scaling are two comparisons: give one of them")
    check_report(report)
    if scaling:
        _compare_scaling(None if paper else runs, price_as, report, as_json=json)
    elif paper:
        _compare_paper(report, as_json=json)
    elif to_quality:
        _compare_to_quality(_folders(runs or ""), until, price_as, report, as_json=json)
    else:
        _compare_runs(_folders(runs or ""), price_as, report, as_json=json)


def _compare_runs(
    folders: list[str], price_as: str | None, report: str | None, *, as_json: bool
) -> None:
    result = api.compare(folders, price_as=price_as)
    if report:
        write_report_file(result.page(), report)
    print_view(result, as_json=as_json)


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
        write_report_file(api.paper_page(replayed.replay), report)
    print_view(replayed, as_json=as_json)


def _folders(named: str) -> list[str]:
    paths: list[str] = []
    for part in named.split(","):
        # Path.glob takes no absolute pattern.
        found = sorted(glob.glob(part)) if glob.has_magic(part) else [part]  # noqa: PTH207
        paths += [path for path in found if part == path or RunFolder(path).record_file.exists()]
    if not paths:
        raise ConfigError(f"{named}: no folder matches that holds a run (record.jsonl)")
    return list(dict.fromkeys(paths))
