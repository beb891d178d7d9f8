"""Measures training steps of one or two variants in turns, beside the limit of the machine."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.bench.arithmetic import step_macs
from cloudgan.bench.measuring_process import MeasuringProcess
from cloudgan.bench.spread import Spread, paired, spread
from cloudgan.bench.turns import Turns
from cloudgan.models.convolutions import convolutions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.bench.variant import Variant
    from cloudgan.core.presets import Preset
    from cloudgan.core.progress import Progress


class Round(NamedTuple):
    """One turn of a variant.

    Attributes:
        seconds: Wall time of a step.
        cpu_seconds: Of all threads of the process, for a step.
        matmul_gflops: Measured right after it.
    """

    seconds: float
    cpu_seconds: float
    matmul_gflops: float


@dataclass(frozen=True)
class Measured:
    """A variant and its rounds.

    Attributes:
        variant: What was asked.
        built: What its process says that it is: formulation, device, threads, replicas,
            global_batch, steps (of a round), first_loss (of the discriminator on real showers,
            before any update).
        rounds: In their order.
    """

    variant: Variant
    built: dict[str, Any]
    rounds: Sequence[Round]

    @property
    def told(self) -> str:
        """Its name, and what `auto` was taken for."""
        form, name = str(self.built["formulation"]), self.variant.name
        return name if form in name else f"{name} ({form})"

    @property
    def preset(self) -> Preset:
        """Whose step it is."""
        return self.variant.config.model

    @property
    def seconds(self) -> Spread:
        """Of a step."""
        return spread([one.seconds for one in self.rounds])

    @property
    def cpu_seconds(self) -> Spread:
        """Of a step."""
        return spread([one.cpu_seconds for one in self.rounds])

    @property
    def showers_per_second(self) -> Spread:
        """Of the global batch."""
        return spread([self.built["global_batch"] / one.seconds for one in self.rounds])

    @property
    def matmul_gflops(self) -> Spread:
        """The machine's matrix speed in the rounds."""
        return spread([one.matmul_gflops for one in self.rounds])

    @property
    def limit_seconds(self) -> Spread:
        """What direct convolution by phases takes at least for a step, at that speed."""
        return spread(self._limits())

    @property
    def share_of_direct_limit(self) -> Spread:
        """The limit's seconds over the step's, each pair of the same round."""
        return paired(self._limits(), [one.seconds for one in self.rounds])

    def _limits(self) -> list[float]:
        products = sum(step_macs(self.preset, "phases").values()) * self.built["global_batch"]
        return [2e-9 * products / one.matmul_gflops for one in self.rounds]


@dataclass(frozen=True)
class StepResult:
    """All that was measured.

    Attributes:
        own: The variant that was asked for.
        against: What it is compared with; None: with nothing.
        layers: Of the own variant, by number: seconds by pass and of all_passes in one call, and
            matmul_gflops just before; empty where nobody asked.
        copy_gb_per_second: What a large copy reads and writes; None where nobody asked.
        interrupted: Whether Ctrl-C ended it early.
    """

    own: Measured
    against: Measured | None
    layers: tuple[dict[str, float], ...] = field(default=())
    copy_gb_per_second: float | None = None
    interrupted: bool = False

    @property
    def ratio(self) -> Spread | None:
        """Seconds of the other variant over those of the own, pairs of one round."""
        return self._ratio("seconds")

    @property
    def cpu_ratio(self) -> Spread | None:
        """The same of CPU seconds, which other work on the machine hardly changes."""
        return self._ratio("cpu_seconds")

    @property
    def peak_beside_layers(self) -> float:
        """The machine's matrix speed while layers were timed, 10^9 operations per second."""
        return spread([one["matmul_gflops"] for one in self.layers]).median

    def _ratio(self, what: str) -> Spread | None:
        if self.against is None:
            return None
        above, below = (
            [getattr(one, what) for one in side.rounds] for side in (self.against, self.own)
        )
        return paired(above, below)


def measure_step(
    own: Variant, against: Variant | None, *, rounds: int, layers: bool, progress: Progress
) -> StepResult:
    """Keeps a process for each variant and lets them take turns.

    Args:
        own: The variant that is asked for.
        against: What it is compared with.
        rounds: How many turns each has.
        layers: Time each convolution of the own variant alone, too.
        progress: Shows the turns.

    Raises:
        CloudganError: A process died, a loss is no number, or not one round was finished.
    """
    variants = [own, *([against] if against else [])]
    with ExitStack() as stack:
        progress.start("building and tracing")
        processes = [
            stack.enter_context(MeasuringProcess(variant.name, variant.environment))
            for variant in variants
        ]
        for process, variant in zip(processes, variants, strict=True):
            process.send("begin", work="step", config=variant.config.model_dump(mode="json"))
        for process in processes:
            process.receive()
        built = [process.ask("warm_up") for process in processes]
        asks = zip(variants, processes, built, strict=True)
        turns = Turns({v.name: partial(_turn, process, said["steps"]) for v, process, said in asks})
        turns.take(rounds, progress)
        timed: list[dict[str, float]] = []
        copy = None
        interrupted = turns.interrupted
        if layers and not interrupted:
            copy = processes[0].ask("copy")["gb_per_second"]
            interrupted = _time_layers(processes[0], own.config.model, timed, progress)
    found = [
        Measured(variant, said, turns.taken[variant.name])
        for variant, said in zip(variants, built, strict=True)
        if variant.name in turns.taken
    ]
    other = found[1] if len(found) > 1 else None
    return StepResult(found[0], other, tuple(timed), copy, interrupted)


def _turn(process: MeasuringProcess, steps: int) -> Round:
    step, peak = process.ask("round", steps=steps), process.ask("matmul")
    return Round(step["seconds"], step["cpu_seconds"], peak["gflops"])


def _time_layers(
    process: MeasuringProcess, preset: Preset, timed: list[dict[str, float]], progress: Progress
) -> bool:
    """Fills `timed`; returns whether Ctrl-C came."""
    layers = convolutions(preset)
    progress.start("timing convolutions", len(layers), "layers")
    try:
        for number, layer in enumerate(layers):
            peak = process.ask("matmul")
            timed.append(process.ask("layer", number=number) | {"matmul_gflops": peak["gflops"]})
            progress.advance(1, f"{layer.network} {layer.name}")
    except KeyboardInterrupt:
        return True
    return False
