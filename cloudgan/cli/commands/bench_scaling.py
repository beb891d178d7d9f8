"""`cloudgan bench scaling`: speed of replicas and processes, or quality against the global batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from cloudgan.cli.views.output import (
    check_report,
    print_json,
    print_table,
    progress_bars,
    raise_if_interrupted,
    write_report_file,
)
from cloudgan.core import ranges
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.ranges import MAX_PROCESSES, Range, parse_counts
from cloudgan.schema.options.bench import BenchScalingOptions
from cloudgan.schema.presets import find_preset

if TYPE_CHECKING:
    from cloudgan.bench.batch_quality import QualityStudy
    from cloudgan.bench.scaling import Kind, ScalingVariant
    from cloudgan.reports.table import Table

_DEVICES = Range(2, MAX_PROCESSES)


@command
def scaling(options: BenchScalingOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    check_report(options.report)
    if options.quality is not None:
        _refuse_speed(
            options.quality,
            strong=options.strong,
            weak=options.weak,
            replicas=options.replicas,
            workers=options.workers,
            predict=options.predict,
            steps=options.steps,
        )
        from cloudgan.bench.batch_quality import make_quality_study

        study = make_quality_study(
            options.quality,
            presets=_presets(options.presets),
            batches=_batches(options.batches),
            conv_impl=options.conv_impl,
        )
        _measure_quality(study, options.rounds, options.report, as_json=as_json)
        return
    from cloudgan.bench.scaling import make_study, measure_scaling, scaling_json, scaling_table

    if options.strong == options.weak:
        raise ConfigError(
            "give --strong (constant global batch), --weak (constant batch per replica) or"
            " --quality=20000 (quality of several --batches)"
        )
    if options.predict and options.weak:
        raise ConfigError(
            "--predict is the bound of strong scaling; that of weak scaling is 1: remove it"
        )
    kind: Kind = "strong" if options.strong else "weak"
    variants = _variants(options.replicas, options.workers)
    devices = parse_counts("--predict", options.predict, _DEVICES) if options.predict else []
    studies = [
        make_study(
            kind,
            variants,
            preset=preset,
            batch=batch,
            steps=options.steps,
            conv_impl=options.conv_impl,
            predict=devices,
        )
        for preset in _presets(options.presets)
        for batch in _batches(options.batches)
    ]
    with progress_bars(as_json=as_json) as progress:
        results = measure_scaling(studies, rounds=options.rounds, progress=progress)
    _show("Scaling", scaling_table(results), scaling_json(results), options.report, as_json=as_json)


def _refuse_speed(quality: int, **flags: object) -> None:
    given = ", ".join(f"--{name}" for name, value in flags.items() if value)
    if given:
        raise ConfigError(
            f"--quality={quality} trains each batch with one replica until the showers are seen; remove"
            f" {given}, or --quality to measure speed"
        )


def _measure_quality(
    study: QualityStudy, rounds: int, report: str | None, *, as_json: bool
) -> None:
    from cloudgan.bench.batch_quality import measure_quality, quality_json, quality_table

    with progress_bars(as_json=as_json) as progress:
        result = measure_quality(study, rounds=rounds, progress=progress)
    title = "Quality against the global batch"
    _show(title, quality_table(result), quality_json(result), report, as_json=as_json)


def _presets(text: str) -> list[str]:
    """Parses such as ``smoke,mini``."""
    return [find_preset(word.strip()).preset for word in dict.fromkeys(text.split(","))]


def _batches(text: str) -> list[int | Literal["usual", "largest"]]:
    """Parses such as ``usual,largest,64``."""
    found: list[int | Literal["usual", "largest"]] = []
    for word in dict.fromkeys(word.strip() for word in text.split(",")):
        if word in {"usual", "largest"}:
            found.append("usual" if word == "usual" else "largest")
        elif word.isdecimal():
            found.append(ranges.parse_whole("--batches", word, ranges.FLAGS["batch"]))
        else:
            raise ConfigError(
                f"--batches={text}: expected usual, largest or numbers of at least 1, such as usual,64"
            )
    return found


def _variants(replicas: str | None, workers: str | None) -> list[ScalingVariant]:
    """Returns the base (one replica), then the requested variants."""
    from cloudgan.bench.scaling import BASE, ScalingVariant

    flags = ranges.FLAGS
    several = parse_counts("--replicas", replicas, flags["replicas"]) if replicas else []
    by_replicas = [ScalingVariant(replicas=n) for n in several]
    several = parse_counts("--workers", workers, flags["workers"]) if workers else []
    by_workers = [ScalingVariant(workers=n) for n in several]
    variants = dict.fromkeys([BASE, *by_replicas, *by_workers])
    if len(variants) == 1:
        raise ConfigError(
            "nothing to compare with one replica: give --replicas=1,2 or --workers=1,2"
        )
    return list(variants)


def _show(
    title: str, table: Table, found: dict[str, Any], report: str | None, *, as_json: bool
) -> None:
    from cloudgan.reports.page import Page, Section

    if as_json:
        print_json(found)
    else:
        print_table(table)
    if report:
        write_report_file(Page(title, sections=(Section("Variants", (table,)),)), report)
    raise_if_interrupted(interrupted=found["interrupted"], as_json=as_json)
