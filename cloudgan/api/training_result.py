"""What `cloudgan train` returns: how a run ended, or with `--describe` what it would train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.core.durations import format_duration
from cloudgan.core.errors import counted
from cloudgan.core.hardware import in_gib, this_machine
from cloudgan.data.held_out import LEAST_TO_JUDGE
from cloudgan.gan.convolutions import plan
from cloudgan.gan.footprint import check_stages, network_sizes, place
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Number, Table
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.run_folder import RunFolder, shown_run
from cloudgan.training.forecast import MemoryForecast, expected_memory
from cloudgan.training.stopping import Outcome


class BestEpoch(Document):
    """The best validated generator; a metric that is no number is null."""

    step: int
    epoch: int = Field(description="epochs completed before this one")
    metrics: dict[str, float | None]


class Quality(Document):
    """What the validations of a run showed."""

    best: BestEpoch | None
    ranked_by: str
    until: str | None = None
    reached: bool | None = Field(None, description="whether the criterion of until was met")
    program_seconds_to_reach: float | None = None


class TrainingResult(Result):
    """How a training on this machine ended."""

    run: str = Field(description="folder")
    ended: StopReason
    preset: str
    step: int
    epoch: int = Field(description="epochs completed")
    train_seconds: float
    training_showers: int | None
    held_out_showers: int | None
    first_generator_loss: float | None = Field(description="mean of the first epoch")
    last_generator_loss: float | None = Field(description="mean of the last epoch")
    checkpoint: str
    quality: Quality | None = Field(description="null: no epoch was validated")
    record: str
    report: str | None = Field(description="page with figures; null: not written")
    why_no_report: str | None = Field(None, description="why a report was not written")
    peak_memory_bytes: int | None = Field(
        description="of the process, with ranks of the largest one; null: unknown"
    )
    memory: MemoryForecast | None = Field(description="forecast; null: not measured on this device")

    def view(self) -> View:
        """Returns one line, losses and memory, and the next commands."""
        time = format_duration(self.train_seconds)
        epochs = f"{counted(self.epoch, 'epoch')}, " if self.epoch else ""
        facts = [self.preset]
        facts += [counted(self.training_showers, "shower")] if self.training_showers else []
        facts += [f"{self.held_out_showers:,} held out"] if self.held_out_showers else []
        first, last = self.first_generator_loss, self.last_generator_loss
        measured = []
        if first is not None and last is not None:
            measured = [f"loss of the generator {first:.3g} → {last:.3g}"]
        if self.peak_memory_bytes:
            peak, whole = in_gib(self.peak_memory_bytes), this_machine().memory_gib
            of = f"{peak.removesuffix(' GiB')} of {whole:.1f} GiB" if whole else peak
            measured += [f"peak memory {of}"]
        notes, quality = ["      ".join(measured)], self.quality
        if quality and quality.best:
            value = quality.best.metrics.get(quality.ranked_by)
            shown = f", {quality.ranked_by} {value:.3g}" if value is not None else ""
            notes += [f"best epoch {quality.best.epoch + 1}{shown} (--step=best)"]
        until = quality.until if quality else None
        reasons = {
            "max_steps": "ended at --max-steps",
            "max_seconds": "ended at --max-seconds",
            "reached": f"ended because {until} is met",
            "plateau": "ended without an improvement in the validations of --patience",
        }
        notes += [reasons.get(self.ended, f"{until} was not met" if until else "")]
        run, enough = shown_run(self.run), (self.held_out_showers or 0) >= LEAST_TO_JUDGE
        against, other = ("", "held-out") if enough else (" --against=FILE", "other")
        name = Path(self.run).name
        page = "" if self.report else f" --report={name}.html"
        verdict = f"verdict against {other} showers" if self.report else "verdict, figures"
        return View(
            line=f"{name}: {epochs}{counted(self.step, 'step')} in {time} ({', '.join(facts)})",
            notes=tuple(filter(None, notes)),
            warnings=(self.why_no_report,) if self.why_no_report else (),
            commands=(
                *([(f"cloudgan report {run}", f"figures ({self.report})")] if self.report else []),
                (f"cloudgan validate {run}{against}{page}", verdict),
                (f"cloudgan export {run} exports/{name}", "ONNX for Geant4"),
            ),
            done=True,
        )


class NetworkSize(Document):
    """Numbers of a network, without measured tables."""

    parameters: int
    trainable: int


class TrainingDescription(Result):
    """What a training would train; nothing was started."""

    preset: str
    generator: NetworkSize
    discriminator: NetworkSize
    layers: list[dict[str, Any]] = Field(
        description="convolutions of both networks, as computed for the image shape"
    )
    config_hash: str
    memory: MemoryForecast | None = Field(description="null: not measured on this device")
    stages: list[dict[str, Any]] = Field(
        description="bytes per device and across each boundary; empty: one device"
    )
    config: RunConfig

    def view(self) -> View:
        """Returns the parameters and the memory on one screen."""
        training, memory = self.config.training, self.memory
        networks = {"generator": self.generator, "discriminator": self.discriminator}
        table = _layers_table(self.layers)
        if self.stages:
            table = stages_table(self.stages)
        notes = [
            f"{name}: {each.parameters:,} parameters, {each.trainable:,} trained"
            for name, each in networks.items()
        ]
        cells = "x".join(map(str, self.config.model.image_shape))
        if memory:
            free = f" of {in_gib(memory.free_bytes)} free" if memory.free_bytes else ""
            largest = (
                f"; largest batch that fits: {memory.largest_batch:,}"
                if memory.largest_batch
                else ""
            )
            notes += [f"peak memory about {in_gib(memory.peak_bytes)}{free}{largest}"]
        bench = f"cloudgan bench step --preset={self.preset}"
        return View(
            line=f"{self.preset}: {cells} cells, {counted(training.epochs, 'epoch')}; nothing was started",
            table=table,
            notes=tuple(notes),
            commands=((bench, "the time of a step on this machine"),),
        )


def _layers_table(layers: list[dict[str, Any]]) -> Table:
    """The cells that each layer receives and returns, with its up-sampling and its kernel."""

    def shown(sizes: tuple[int, ...]) -> str:
        return "x".join(map(str, sizes))

    rows = tuple(
        (
            layer["network"],
            shown(layer["cells"]),
            shown(layer["upsample"]) if max(layer["upsample"]) > 1 else "",
            shown(layer["kernel"]),
            shown(layer["output_cells"]),
        )
        for layer in layers
    )
    return Table(("network", "cells", "up-sampling", "kernel", "output cells"), rows, align="lrrrr")


def training_result(
    outcome: Outcome,
    folder: RunFolder,
    config: RunConfig,
    report: Path | None = None,
    why_no_report: str = "",
) -> TrainingResult:
    """Returns how a run ended."""
    found = record.read_if_whole(folder.record_file)
    started, stopped, epochs = found.started(), found.stopped(), found.epochs()
    losses = [epoch.losses.get("generator", {}).get("total") for epoch in epochs]
    return TrainingResult(
        run=str(folder.path),
        ended=outcome.reason,
        preset=config.model.preset,
        step=outcome.step,
        epoch=min(outcome.epoch, config.training.epochs),  # the last batch may reach beyond
        train_seconds=round(outcome.train_seconds, 3),
        training_showers=started.training_showers if started else None,
        held_out_showers=started.held_out_showers if started else None,
        first_generator_loss=losses[0] if losses else None,
        last_generator_loss=losses[-1] if losses else None,
        checkpoint=str(outcome.checkpoint),
        quality=_quality(outcome, found, config),
        record=str(folder.record_file),
        report=str(report) if report else None,
        why_no_report=why_no_report or None,
        peak_memory_bytes=stopped.peak_memory_bytes if stopped else None,
        memory=outcome.memory,
    )


def _quality(outcome: Outcome, found: record.RunRecord, config: RunConfig) -> Quality | None:
    """The best validated generator, and the program time until the stop criterion was met."""
    training = config.training
    if not training.validates_every:
        return None
    until = training.until or None
    return Quality(
        best=BestEpoch(**outcome.best.as_json()) if outcome.best else None,
        ranked_by=training.ranking.name,
        until=until,
        reached=outcome.reason == "reached" if until else None,
        program_seconds_to_reach=found.seconds_to_reach(training.ranking) if until else None,
    )


def describe_training(config: RunConfig, folder: RunFolder) -> TrainingDescription:
    """Returns the networks' parameter counts, the expected memory and the whole configuration.

    Showers that are here give the networks their geometry, as in training.
    """
    if config.data.path and Path(config.data.path).exists():
        from cloudgan.training.showers import find_showers

        config, _ = find_showers(config, folder)
    stages, slots = config.parallel.stages, 2 if config.model.optimizer == "adam" else 1
    check_stages(stages, config.model)
    processes = config.training.workers
    memory = expected_memory(config, workers=processes, processes=processes)
    return TrainingDescription.model_validate(
        {
            "preset": config.model.preset,
            **network_sizes(config.model),
            "layers": plan(config.model),
            "config_hash": config.config_hash(),
            "memory": memory.forecast() if memory else None,
            "stages": place(config.model, stages, slots=slots) if stages else [],
            "config": config,
        }
    )


def stages_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Returns a row per network and device, from `device_stages.place`."""
    cells = tuple(
        (
            row["network"],
            row["device"],
            ", ".join(row["layers"]),
            *(
                Number(row[key], f"{row[key] / (1 << 20):,.2f} MiB")
                for key in ("weight_bytes", "activation_bytes_per_shower", "bytes_in_per_shower")
            ),
        )
        for row in rows
    )
    heads = ("network", "device", "layers", "weights", "activations", "sent")
    note = "Layers by device. Weights with their slots; activations, and what is sent one way, of one shower."
    return Table(heads, cells, note, "lrlrrr")
