"""`cloudgan bench scaling`: speed of replicas and processes, or quality against the global batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from cloudgan.cli.options.values import parse_counts
from cloudgan.cli.views.output import (
    check_report,
    print_json,
    print_table,
    progress_bars,
    raise_if_interrupted,
    write_report_file,
)
from cloudgan.core import ranges
from cloudgan.core.errors import ConfigError
from cloudgan.core.ranges import MAX_PROCESSES, Range
from cloudgan.schema.config import ConvImplOption
from cloudgan.schema.presets import find_preset

if TYPE_CHECKING:
    from cloudgan.bench.batch_quality import QualityStudy
    from cloudgan.bench.scaling import Kind, ScalingVariant
    from cloudgan.reports.table import Table

_DEVICES = Range(2, MAX_PROCESSES)


def scaling(
    *,
    strong: bool = False,
    weak: bool = False,
    replicas: str | None = None,
    workers: str | None = None,
    presets: str = "mini",
    batches: str = "usual",
    predict: str | None = None,
    quality: int | None = None,
    steps: int | None = None,
    conv_impl: ConvImplOption = "auto",
    rounds: int = 3,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Measures replicas or worker processes against threads on the same cores, by whole training runs.

    Two efficiencies are shown: training only, without the start and the first call, and end to end.
    Independent runs on the same shares of the machine are measured, too: what they lose is the price of
    small batches, and what replicas lose against them is that of the exchange.

    --quality trains runs that see equally many showers with different batches instead, and shows their
    validation: what a larger global batch, as weak scaling has it, costs in quality.

    Args:
        strong: Strong scaling: the global batch is constant.
        weak: Weak scaling: the batch per replica is constant.
        replicas: Replicas of one process, such as 1,2; 1 is always measured.
        workers: Worker processes on this machine with one replica each, such as 1,2.
        presets: Presets, such as smoke,mini.
        batches: Showers per step, of all replicas with --strong and --quality, of each with --weak: usual,
            largest (that should fit into the memory) or numbers, such as usual,64.
        predict: Numbers of devices, such as 8,12, of which one is measured (--strong).
        quality: Training showers that each run sees, such as 20000: instead of speed, the quality of one
            run per batch and seed with one replica; give several --batches.
        steps: Steps per run with the usual batch. Default: 4 for paper, 20 for fixed25, else 300.
        conv_impl: Convolution implementation of all runs.
        rounds: Runs of each variant; with --quality seeds of each batch.
        report: File to write as well: .html, .md or .csv.
        json: Print the result as JSON.
    """
    check_report(report)
    if quality is not None:
        _refuse_speed(
            quality,
            strong=strong,
            weak=weak,
            replicas=replicas,
            workers=workers,
            predict=predict,
            steps=steps,
        )
        from cloudgan.bench.batch_quality import make_quality_study

        study = make_quality_study(
            quality, presets=_presets(presets), batches=_batches(batches), conv_impl=conv_impl
        )
        _measure_quality(study, rounds, report, as_json=json)
        return
    from cloudgan.bench.scaling import make_study, measure_scaling, scaling_json, scaling_table

    if strong == weak:
        raise ConfigError(
            "give --strong (constant global batch), --weak (constant batch per replica) or"
            " --quality=20000 (quality of several --batches)"
        )
    if predict and weak:
        raise ConfigError(
            "--predict is the bound of strong scaling; that of weak scaling is 1: remove it"
        )
    kind: Kind = "strong" if strong else "weak"
    variants = _variants(replicas, workers)
    devices = parse_counts("predict", predict, _DEVICES) if predict else []
    studies = [
        make_study(
            kind,
            variants,
            preset=preset,
            batch=batch,
            steps=steps,
            conv_impl=conv_impl,
            predict=devices,
        )
        for preset in _presets(presets)
        for batch in _batches(batches)
    ]
    with progress_bars(as_json=json) as progress:
        results = measure_scaling(studies, rounds=rounds, progress=progress)
    _show("Scaling", scaling_table(results), scaling_json(results), report, as_json=json)


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
    several = parse_counts("replicas", replicas, flags["replicas"]) if replicas else []
    by_replicas = [ScalingVariant(replicas=n) for n in several]
    several = parse_counts("workers", workers, flags["workers"]) if workers else []
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
