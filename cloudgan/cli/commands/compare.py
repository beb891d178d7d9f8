"""`cloudgan compare`: runs side by side, or those of the paper."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cloudgan.api import compare as api
from cloudgan.api.quality_comparison import cost_to_quality
from cloudgan.api.scaling_comparison import compare_scaling, published_scaling
from cloudgan.api.scaling_page import scaling_page, sentences, tables
from cloudgan.cli.views.output import (
    print_json,
    print_table,
    write_report_file,
)
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.reports.page import Page
from cloudgan.reports.result import Result
from cloudgan.reports.table import Table
from cloudgan.schema.options.money import CompareOptions
from cloudgan.schema.run_folder import RunFolder

_COLUMNS = 120


@command
def compare(options: CompareOptions, *, as_json: bool = False) -> Result | None:
    """Returns the comparison; that to a quality and that of scaling print their tables."""
    if bool(options.runs) == options.paper:
        raise ConfigError("nothing to compare: give runs, such as runs/*, or --paper")
    if options.to_quality and options.paper:
        raise ConfigError("--to-quality needs your own runs: the paper's have no acceptance gates")
    if options.until is not None and not options.to_quality:
        raise ConfigError(f"--until={options.until} needs --to-quality")
    if options.to_quality and options.scaling:
        raise ConfigError("--to-quality and --scaling are two comparisons: give one of them")
    if options.scaling:
        folders = None if options.paper else _folders(options.runs)
        found = (
            published_scaling()
            if folders is None
            else compare_scaling(folders, price_as=options.price_as)
        )
        _show(scaling_page(found), found.as_json(), tables(found), options.report, as_json=as_json)
        if not as_json:
            print("\n".join(sentences(found)))
        return None
    if options.paper:
        replayed = api.replay_paper()
        if options.report:
            write_report_file(api.paper_page(replayed.replay), options.report)
        return replayed
    if options.to_quality:
        reached = cost_to_quality(
            _folders(options.runs), until=options.until, price_as=options.price_as
        )
        _show(reached.page(), reached.as_json(), reached.tables(), options.report, as_json=as_json)
        return None
    result = api.compare(_folders(options.runs), price_as=options.price_as)
    if options.report:
        write_report_file(result.page(), options.report)
    return result


def _show(
    page: Page,
    found: dict[str, Any],
    shown: Sequence[Table],
    report: str | None,
    *,
    as_json: bool,
) -> None:
    if report:
        write_report_file(page, report)
    if as_json:
        print_json(found)
        return
    for table in shown:
        print_table(table, width=_COLUMNS)


def _folders(named: Sequence[str]) -> list[str]:
    """Returns folders of runs: what the shell expanded, comma lists, or quoted globs."""
    paths: list[str] = []
    for part in (word for name in named for word in name.split(",")):
        # Path.glob takes no absolute pattern.
        found = sorted(glob.glob(part)) if glob.has_magic(part) else [part]  # noqa: PTH207
        several = len(found) > 1 or len(named) > 1
        paths += [
            path
            for path in found
            if not several or RunFolder(path).record_file.exists() or not Path(path).exists()
        ]
    if not paths:
        raise ConfigError(f"{', '.join(named)}: no folder matches that holds a run (record.jsonl)")
    return list(dict.fromkeys(paths))
