"""`bench step`: the training step against another form of it, and the limits of the machine.

The limit of direct convolution is its counted arithmetic at the speed of matrix products, measured in the same
rounds. In the roofline (Williams, Waterman and Patterson, doi:10.1145/1498765.1498785) intensity is operations
per byte of input, output and weights, each counted once; the roof is the speed of a large matrix product, and
below its ridge the bandwidth of a large copy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, get_args

from cloudgan.bench.harness import (
    Column,
    Measured,
    Measurement,
    children_in_turns,
    table_of,
    variants_json,
)
from cloudgan.bench.processes import Child
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import ConfigError, Interrupted, UnknownNameError, counted
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.gan.convolutions import PASSES, Form, Pass, convolutions, generator_macs, step_macs
from cloudgan.reports.charts import COLOURS, GREY, INK
from cloudgan.reports.drawing import Drawing
from cloudgan.reports.page import Graphic
from cloudgan.reports.table import Table
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.options.bench import BenchStepOptions
from cloudgan.schema.presets import Preset
from cloudgan.schema.training_config import ConvImplOption

_SETTINGS = {"precision": str, "replicas": int, "threads": int}
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_BYTES = {"float32": 4, "bfloat16": 2, "float64": 8}


class Variant(NamedTuple):
    """One way to do the same work: its name for tables, its run, and variables of its process."""

    name: str
    config: RunConfig
    environment: Mapping[str, str] = {}


def make_variant(conv_impl: str, preset: str, training: Mapping[str, Any]) -> Variant:
    """Creates a variant of a preset; in `training`, keys of run.yaml, None is the default."""
    if training.get("precision") == "mixed":
        raise ConfigError(
            "precision mixed depends on the machine; give --precision=bfloat16 or"
            " --precision=float32"
        )
    said = {key: value for key, value in training.items() if value is not None}
    asked = {"model": {"preset": preset}, "training": said | {"conv_impl": conv_impl}}
    return Variant(conv_impl, parse_config(asked, "the command line"))


def parse_against(text: str, own: Variant, preset: str, training: Mapping[str, Any]) -> Variant:
    """Parses a variant such as ``published`` or ``fast:precision=bfloat16,TF_ENABLE_ONEDNN_OPTS=0``.

    Other settings follow a colon, with variables in capitals; those of `own`, `training`, are the defaults.
    """
    conv_impl, _, rest = text.partition(":")
    known = get_args(ConvImplOption)
    if conv_impl not in known:
        raise UnknownNameError("conv_impl in --against", conv_impl, (*known, "none"))
    settings: dict[str, Any] = {}
    environment: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(
                f"--against={text}: {part!r} is not KEY=VALUE, such as precision=bfloat16 or"
                " TF_ENABLE_ONEDNN_OPTS=0"
            )
        if _VARIABLE.fullmatch(key):
            environment[key] = value
        elif key not in _SETTINGS:
            raise UnknownNameError("setting in --against", key, _SETTINGS)
        elif _SETTINGS[key] is int and not value.isdecimal():
            raise ConfigError(f"--against: {key} is a whole number, got {value!r}")
        else:
            settings[key] = _SETTINGS[key](value)
    config = make_variant(conv_impl, preset, dict(training) | settings).config
    name = f"{conv_impl} ({rest.replace(',', ', ')})" if rest else conv_impl
    return Variant(f"{name}, again" if name == own.name else name, config, environment)


def measure_step(
    variants: Sequence[Variant], rounds: int, progress: Progress
) -> tuple[list[Measured], bool]:
    """Measures variants in turns, each in its own process, after a turn that warms up."""
    children = [_child(one, "steps") for one in variants]
    measured, interrupted = children_in_turns(children, rounds, progress)
    for one, variant in zip(measured, variants, strict=False):
        one.facts["environment"] = dict(variant.environment)
    return measured, interrupted


def _child(variant: Variant, work: str) -> Child:
    config = variant.config.model_dump(mode="json")
    work = f"cloudgan.bench.step_work:{work}"
    return Child(variant.name, work, environment=variant.environment, config=config)


def plain_step(
    preset: str, training: Mapping[str, Any], rounds: int, progress: Progress
) -> Measured:
    """Measures the step of a preset alone, as `train` computes it."""
    (found,), _ = measure_step([make_variant("auto", preset, training)], rounds, progress)
    return found


def _gflop(preset: Preset, form: Form) -> float:
    """Returns 10^9 operations of a step per shower."""
    return 2e-9 * sum(step_macs(preset, form).values())


COLUMNS = (
    Column("seconds_per_step", "s/step, median"),
    Column("seconds_per_step", "least", lambda found: found.min),
    Column(
        "seconds_per_step",
        "quartiles",
        lambda found: f"{found.lower_quartile:.3g} to {found.upper_quartile:.3g}",
    ),
    Column("showers_per_second", "showers/s"),
    Column("cpu_seconds_per_step", "CPU s/step"),
    Column("matmul_gflops", "matrix product GFLOP/s"),
    Column("share_of_direct_limit", "share of direct limit", lambda found: f"{found.median:.0%}"),
    Column("limit_seconds"),
)


def measure(options: BenchStepOptions, progress: Progress) -> Measurement:
    """Measures a step against a variant of it, and with `roofline` each convolution alone."""
    training = {
        "batch_per_replica": options.batch,
        "precision": options.precision,
        "replicas": options.replicas,
        "threads": options.threads,
    }
    own = make_variant(options.conv_impl, options.preset, training)
    variants = [own]
    if options.against != "none":
        variants.append(parse_against(options.against, own, options.preset, training))
    measured, interrupted = measure_step(variants, options.rounds, progress)
    layers, model = None, own.config.model
    if options.roofline and not interrupted:
        one = own._replace(name="each convolution")
        count = len(convolutions(model))
        with suppress(Interrupted):  # before the first one: the step is measured
            (layers,), interrupted = children_in_turns(
                [_child(one, "layers")], count, progress, warm_up=False
            )
        interrupted = interrupted or not layers
    if options.roofline and layers and not interrupted:
        with Drawing(height_inches=6.0) as drawing:
            draw_roofline(drawing, measured[0], model, layers)
            write_atomic(options.roofline, drawing.png())
    return step_measurement(model, measured, layers, interrupted)


def step_measurement(
    preset: Preset,
    variants: Sequence[Measured],
    timed: Measured | None = None,
    interrupted: bool = False,
) -> Measurement:
    """Returns what was measured as JSON, tables, sentences and the roofline for a page.

    The first variant is the requested one, another is compared with it. `timed` has a row for each of its convolutions:
    seconds by pass, and matmul_gflops; its fact copy_gb_per_second is what a large copy then reads and writes.
    """
    own, *others = variants
    rounds = min(len(one.rows) for one in variants)
    share, limit = own.spread("share_of_direct_limit"), own.spread("limit_seconds")
    label, batch = _label(own), own.facts["global_batch"]
    ratio = cpu_ratio = None
    lines = []
    for other in others:
        ratio = other.ratio("seconds_per_step", own)
        cpu_ratio = other.ratio("cpu_seconds_per_step", own)
        lines.append(
            f"ratio {_label(other)} / {label}: {ratio.describe()} of wall time, {cpu_ratio.describe()} of CPU"
            f" time (median, least to most, of {counted(ratio.count, 'round')})"
        )
    past = ", because it needs fewer multiplications than direct convolution"
    lines.append(
        f"limit of direct convolution: {_gflop(preset, 'phases'):.4g} GFLOP a shower"
        f" ({_gflop(preset, 'published'):.4g} as published), at the measured matrix speed"
        f" {limit.describe()} s/step"
    )
    lines.append(
        f"{label} reaches {share.median:.0%} ({share.min:.0%} to {share.max:.0%}) of that"
        f" limit{past if share.median > 1 else ''}"
    )
    shown = [Measured(_label(one), one.facts, one.rows) for one in variants]
    caption = (
        f"Preset {preset.preset}, {batch} showers a step, {counted(rounds, 'round')} in turns,"
        f" {this_machine().describe()}."
    )
    layers = layer_passes(own, preset, timed) if timed else []

    def pictures() -> tuple[Graphic, ...]:
        if not timed:
            return ()
        with Drawing(height_inches=5.5) as drawing:
            draw_roofline(drawing, own, preset, timed)
            drawn = drawing.svg("roofline: speed of each convolution against its intensity")
        return (Graphic(drawn, "Roofline"),)

    return Measurement(
        title="How fast is a training step, and how near to the limit of the machine?",
        preset=preset.preset,
        global_batch=batch,
        rounds=rounds,
        variants=variants_json(variants, COLUMNS),
        ratio=ratio,
        cpu_ratio=cpu_ratio,
        share_of_direct_limit=share,
        limit={
            "of": "direct convolution by phases, at the measured speed of matrix products",
            "gflop_per_shower": _gflop(preset, "phases"),
            "published_gflop_per_shower": _gflop(preset, "published"),
            "generator_gflop": 2e-9 * generator_macs(preset, "phases"),
            "parts_gflop": {n: 2e-9 * macs for n, macs in step_macs(preset, "phases").items()},
            "seconds_per_step": limit,
        },
        copy_gb_per_second=timed.facts["copy_gb_per_second"] if timed else None,
        layers=layers,
        interrupted=interrupted,
        lines=tuple(lines),
        tables=(
            table_of(shown, COLUMNS, caption),
            *([_layer_table(own, layers)] if layers else []),
        ),
        pictures=pictures,
    )


def _label(one: Measured) -> str:
    """Returns the name, and the conv_impl that `auto` resolved to."""
    impl = str(one.facts["conv_impl"])
    return one.name if impl in one.name else f"{one.name} ({impl})"


def _counted(own: Measured) -> Form:
    """Returns the form whose products are counted."""
    return "published" if own.facts["conv_impl"] == "published" else "phases"


def layer_passes(own: Measured, preset: Preset, timed: Measured) -> list[dict[str, Any]]:
    """Returns a row per timed convolution and pass: seconds and 10^9 operations of a batch, intensity."""
    batch = own.facts["global_batch"] // own.facts["replicas"]
    width = _BYTES[own.facts["precision"]]
    found = []
    for layer, seconds in zip(convolutions(preset), timed.rows, strict=False):
        gflop = 2e-9 * layer.macs(_counted(own)) * batch
        moved = width * (layer.values * batch + layer.weights)
        short = f"{layer.network[0].upper()}{int(layer.name.removeprefix('conv')) + 1}"
        found += [
            {
                "name": f"{short} {name}",
                "label": short,
                "network": layer.network,
                "layer": layer.name,
                "pass": name,
                "seconds": seconds[name],
                "gflop": gflop,
                "gflops": gflop / seconds[name],
                "flop_per_byte": 1e9 * gflop / moved,
                "seconds_of_all_passes": seconds["all_passes"],
            }
            for name in PASSES
        ]
    return found


def _layer_table(own: Measured, layers: Sequence[Mapping[str, Any]]) -> Table:
    counted = "direct convolution by phases, for any implementation"
    if _counted(own) == "published":
        counted = "published, with the up-sampled image"
    rows = (
        {
            "layer": one["label"],
            "pass": one["pass"].replace("_", " "),
            "ms/batch": 1000 * one["seconds"],
            "GFLOP/s": one["gflops"],
            "FLOP/byte": one["flop_per_byte"],
        }
        for one in layers
    )
    return Table.of(rows, f"Each convolution alone; operations are counted as {counted}.")


_MARKERS: dict[Pass, str] = {"forward": "o", "input_gradient": "^", "weight_gradient": "s"}


def draw_roofline(drawing: Drawing, own: Measured, preset: Preset, timed: Measured) -> None:
    """Draws all passes below the roof; the arguments are those of `step_measurement`."""
    layers = layer_passes(own, preset, timed)
    bandwidth = timed.facts["copy_gb_per_second"]
    peak = timed.spread("matmul_gflops").median
    axes = drawing.axes()
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    ridge, intensities = peak / bandwidth, [one["flop_per_byte"] for one in layers]
    low, high = min([ridge, *intensities]) / 2, 2 * max([ridge, *intensities])
    copy, product = f"copy: {bandwidth:.3g} GB/s", f"matrix product: {peak:.3g} GFLOP/s"
    axes.plot([low, ridge], [low * bandwidth, peak], "--", color=GREY, label=copy)
    axes.plot([ridge, high], [peak, peak], color=INK, label=product)
    for number, network in enumerate(dict.fromkeys(one["network"] for one in layers)):
        for name, marker in _MARKERS.items():
            mine = [one for one in layers if (one["network"], one["pass"]) == (network, name)]
            axes.plot(
                [one["flop_per_byte"] for one in mine],
                [one["gflops"] for one in mine],
                linestyle="",
                marker=marker,
                color=COLOURS[number],
                label=f"{network}, {name.replace('_', ' ')}",
            )
    # Labels alternate above and below, because layers of similar intensity are close.
    labels = sorted({one["flop_per_byte"]: one["label"] for one in layers}.items())
    for number, (intensity, label) in enumerate(labels):
        speeds = [one["gflops"] for one in layers if one["label"] == label]
        place, shift = ((max(speeds), 6), (min(speeds), -14))[number % 2]
        axes.annotate(
            label, (intensity, place), (0, shift), textcoords="offset points", ha="center"
        )
    axes.set_xlabel("arithmetic intensity (FLOP per byte of input, output and weights)")
    axes.set_ylabel("speed (GFLOP/s)")
    batch = own.facts["global_batch"] // own.facts["replicas"]
    axes.set_title(
        f"{preset.preset}, {own.facts['conv_impl']} kernels, batch {batch},"
        f" {own.facts['precision']}, {counted(own.facts['threads'], 'thread')}"
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    drawing.figure.legend(loc="outside lower center", ncols=3)
