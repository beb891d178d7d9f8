"""Measures training steps of one or two variants in turns, and the limit of the machine."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from cloudgan.bench.arithmetic import step_macs
from cloudgan.bench.measurement import Rounds, Spread, paired, spread
from cloudgan.bench.measuring_process import MeasuringProcess
from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.models.convolutions import convolutions
from cloudgan.schema.config import parse_config
from cloudgan.schema.training_config import ConvImplOption

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cloudgan.core.progress import Progress
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.presets import Preset

_SETTINGS = {"precision": str, "replicas": int, "threads": int}
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True)
class Variant:
    """One way to do the same work.

    Attributes:
        name: Conv_impl and other options, for tables.
        config: Preset, batch, precision, replicas, threads and kernels are used of it.
        environment: Additional variables of its process.
    """

    name: str
    config: RunConfig
    environment: dict[str, str] = field(default_factory=dict)


def make_variant(
    conv_impl: str, preset: str, training: Mapping[str, Any], environment: Mapping[str, str]
) -> Variant:
    """Creates a variant.

    Args:
        conv_impl: auto, published or fast.
        preset: Name of the preset.
        training: Keys of `training` in run.yaml; None: default.
        environment: Variables of its process.

    Raises:
        ConfigError: An invalid value.
    """
    if training.get("precision") == "mixed":
        raise ConfigError(
            "precision mixed depends on the machine; give --precision=bfloat16 or"
            " --precision=float32"
        )
    said = {key: value for key, value in training.items() if value is not None}
    config = parse_config(
        {"model": {"preset": preset}, "training": said | {"conv_impl": conv_impl}},
        "the command line",
    )
    return Variant(conv_impl, config, dict(environment))


def parse_against(text: str, own: Variant, preset: str, training: Mapping[str, Any]) -> Variant:
    """Parses a variant such as ``published`` or ``fast:precision=bfloat16,TF_ENABLE_ONEDNN_OPTS=0``.

    Args:
        text: A conv_impl; after a colon other settings, and variables in capitals.
        own: The variant to compare with; names differ.
        preset: Name of the preset.
        training: The settings of `own`, as defaults.

    Raises:
        ConfigError: No such conv_impl or setting, or an invalid value.
    """
    conv_impl, _, rest = text.partition(":")
    if conv_impl not in get_args(ConvImplOption):
        raise UnknownNameError(
            "conv_impl in --against", conv_impl, (*get_args(ConvImplOption), "none")
        )
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
        else:
            settings[key] = _context(key, value)
    made = make_variant(conv_impl, preset, dict(training) | settings, environment)
    name = f"{conv_impl} ({rest.replace(',', ', ')})" if rest else conv_impl
    return Variant(f"{name}, again" if name == own.name else name, made.config, environment)


def _context(key: str, value: str) -> Any:
    if key not in _SETTINGS:
        raise UnknownNameError("setting in --against", key, _SETTINGS)
    if _SETTINGS[key] is int and not value.isdecimal():
        raise ConfigError(f"--against: {key} is a whole number, got {value!r}")
    return _SETTINGS[key](value)


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
class MeasuredVariant:
    """A variant and its rounds.

    Attributes:
        variant: The requested variant.
        built: Reported by its process: conv_impl, device, threads, replicas,
            global_batch, steps (of a round), first_loss (of the discriminator on real showers,
            before any update).
        rounds: In their order.
    """

    variant: Variant
    built: dict[str, Any]
    rounds: Sequence[Round]

    @property
    def label(self) -> str:
        """The name, and the conv_impl that `auto` resolved to."""
        impl, name = str(self.built["conv_impl"]), self.variant.name
        return name if impl in name else f"{name} ({impl})"

    @property
    def preset(self) -> Preset:
        """Preset of the step."""
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
        """Minimum time of direct convolution by phases for a step, at that speed."""
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
        own: The requested variant.
        against: The variant to compare with; None: none.
        layers: Of the own variant, by number: seconds by pass and of all_passes in one call, and
            matmul_gflops just before; empty unless requested.
        copy_gb_per_second: What a large copy reads and writes; None unless requested.
        interrupted: Whether Ctrl-C ended it early.
    """

    own: MeasuredVariant
    against: MeasuredVariant | None
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
    """Measures variants in turns, each in its own process.

    Args:
        own: The requested variant.
        against: The variant to compare with.
        rounds: Measurements of each.
        layers: Also time each convolution of the own variant.
        progress: Progress of the rounds.

    Raises:
        CloudganError: A process died, a loss is not finite, or no round was completed.
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
        rounds_run = Rounds(
            {v.name: partial(_turn, process, said["steps"]) for v, process, said in asks}
        )
        rounds_run.run(rounds, progress)
        timed: list[dict[str, float]] = []
        copy = None
        interrupted = rounds_run.interrupted
        if layers and not interrupted:
            copy = processes[0].ask("copy")["gb_per_second"]
            interrupted = _time_layers(processes[0], own.config.model, timed, progress)
    found = [
        MeasuredVariant(variant, said, rounds_run.results[variant.name])
        for variant, said in zip(variants, built, strict=True)
        if variant.name in rounds_run.results
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
