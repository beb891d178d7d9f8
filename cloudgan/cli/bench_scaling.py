"""`cloudgan bench scaling`: replicas and processes against threads on the same cores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.output import show_json, shown_after, shown_progress
from cloudgan.cli.report_file import check_report, write_report_file
from cloudgan.core.config import DEFAULT_BATCH, Kernels
from cloudgan.core.errors import ConfigError, Interrupted
from cloudgan.core.presets import find_preset

if TYPE_CHECKING:
    from cloudgan.bench.scaling import Kind, ScalingResult, Way

_STEPS = {"paper": 4, "fixed25": 20, "mini": 300, "smoke": 300}
_BATCH = DEFAULT_BATCH | {"paper": 16}


def scaling(
    *,
    strong: bool = False,
    weak: bool = False,
    replicas: str | None = None,
    workers: str | None = None,
    preset: str = "mini",
    batch: int | None = None,
    steps: int | None = None,
    kernels: Kernels = "auto",
    rounds: int = 3,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Measures replicas or processes against the same cores used by threads, by whole training runs.

    Each turn is one `cloudgan train` from the start of the program to its end, on showers that are
    simulated for it. Two efficiencies stand side by side: of training only, without start and the
    first call, and end to end. The shorter the runs, the more the second one shows of the start.

    Args:
        strong: The global batch stays the same, however many share it.
        weak: The batch per replica stays the same.
        replicas: Of one process, such as 1,2; 1 is always measured.
        workers: Processes on this machine with one replica each, such as 1,2.
        preset: paper, mini, fixed25 or smoke.
        batch: Showers per step: of all replicas with --strong, of each with --weak.
            Default: 16 for paper, else that of `train`.
        steps: Of each run. Default: 4 for paper, 20 for fixed25, else 300.
        kernels: Of all runs.
        rounds: Runs of each.
        report: Write the table as .html, .md or .csv.
        json: Print the result as JSON.
    """
    from cloudgan.bench.scaling import make_configs, measure_scaling

    if strong == weak:
        raise ConfigError("say --strong (one global batch) or --weak (one batch per replica)")
    if rounds < 1:
        raise ConfigError(f"--rounds={rounds}: at least one")
    networks = find_preset(preset).networks
    check_report(report)
    kind: Kind = "strong" if strong else "weak"
    configs = make_configs(
        kind,
        _ways(replicas, workers),
        preset=preset,
        batch=_BATCH[networks] if batch is None else batch,
        steps=_STEPS[networks] if steps is None else steps,
        kernels=kernels,
    )
    with shown_progress(as_json=json) as progress:
        result = measure_scaling(kind, configs, rounds=rounds, progress=progress)
    _tell(result, report, as_json=json)


def _ways(replicas: str | None, workers: str | None) -> list[Way]:
    """The base, then what was asked for."""
    from cloudgan.bench.scaling import BASE, Way

    by_replicas = [Way(replicas=n) for n in _numbers("replicas", replicas)]
    by_workers = [Way(workers=n) for n in _numbers("workers", workers)]
    ways = dict.fromkeys([BASE, *by_replicas, *by_workers])
    if len(ways) == 1:
        raise ConfigError(
            "nothing to compare with one replica: give --replicas=1,2 or --workers=1,2"
        )
    return list(ways)


def _tell(result: ScalingResult, report: str | None, *, as_json: bool) -> None:
    from cloudgan.bench.scaling_report import scaling_json, scaling_table
    from cloudgan.cli.table_view import show_table
    from cloudgan.reports.page import Page, Section

    table = scaling_table(result)
    if as_json:
        show_json(scaling_json(result))
    else:
        show_table(table)
    if report:
        write_report_file(Page("Scaling", sections=(Section("Ways", (table,)),)), Path(report))
    if result.interrupted:
        raise shown_after(Interrupted("stopped before the last round"), as_json=as_json)


def _numbers(name: str, text: str | None) -> list[int]:
    """Reads such as ``1,2,4``."""
    if text is None:
        return []
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise ConfigError(f"--{name}={text}: numbers of at least 1, such as 1,2")
    return [int(word) for word in words]
