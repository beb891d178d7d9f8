"""Options of `cloudgan bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cloudgan.core.errors import ConfigError
from cloudgan.core.flags import FILE, RANGE, Options, Text, flag
from cloudgan.core.local_path import local_path
from cloudgan.core.ranges import (
    MAX_BATCH,
    MAX_LOCAL_PROCESSES,
    MAX_PROCESSES,
    MAX_SECONDS,
    MAX_SHOWERS,
    MAX_STEP,
    Range,
    parse_whole,
)
from cloudgan.schema.coevolution import parse_grid
from cloudgan.schema.options.shared import REPORT
from cloudgan.schema.parallel import UpdateRule
from cloudgan.schema.presets import networks
from cloudgan.schema.simulation import UNIT, EcalUnit
from cloudgan.schema.training_config import ConvImplOption, Precision

Batch = int | Literal["usual", "largest"]
_SIZES: dict[str, Batch] = {"usual": "usual", "largest": "largest"}


def _counts(high: int, low: int = 1) -> Text:
    """Returns how different numbers such as ``1,2,4`` are read: in ascending order."""

    def parse(shown: str, text: str) -> tuple[int, ...]:
        words = [word.strip() for word in text.split(",")]
        if not all(word.isascii() and word.isdecimal() for word in words):
            raise ConfigError(
                f"{shown}={text[:80]}: expected numbers of at least {low}, such as 2,8"
            )
        return tuple(sorted({parse_whole(shown, word, Range(low, high)) for word in words}))

    return Text(parse, "N,N", joint=",")


def _batches(shown: str, text: str) -> tuple[Batch, ...]:
    words = dict.fromkeys(word.strip() for word in text.split(","))
    if not all(word in _SIZES or word.isdecimal() for word in words):
        raise ConfigError(
            f"{shown}={text}: expected usual, largest or numbers of at least 1, such as usual,64"
        )
    high = Range(1, MAX_BATCH)
    return tuple(_SIZES.get(word) or parse_whole(shown, word, high) for word in words)


def _grids(shown: str, text: str) -> tuple[tuple[int, int], ...]:
    return tuple(parse_grid(shown, word.strip()) for word in text.split(","))


def _picture(shown: str, text: str) -> Path:
    path = local_path(text, source=shown)
    if path.suffix.lower() != ".png" or path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"{shown}={text}: expected a .png file in an existing folder")
    return path


class BenchOptions(Options):
    """Options of every bench."""

    compare: Annotated[Path | None, FILE] = flag(
        None,
        "compare with an earlier result; which --json printed: medians stand side by side",
        "Output",
        placeholder="FILE.json",
    )
    report: str | None = REPORT


_LAYOUTS = _counts(4096)
"""Of a prediction: the simulation of 4096 workers takes ten seconds."""
Workers = Annotated[tuple[int, ...], _counts(MAX_LOCAL_PROCESSES)]


class BenchStepOptions(BenchOptions):
    """Measures the training step against a variant of it, in one run.

    Both variants stay alive in their own processes and alternate, so that other load on the machine
    affects both; the ratio is of measurements next to each other in time. Each speed is shown beside
    the limit of direct convolution: its counted arithmetic at the speed of matrix products, measured
    in the same rounds. The showers come from the parametric source.

    Examples:
        cloudgan bench step --preset=mini --rounds=3
        cloudgan bench step --against=fast:precision=bfloat16 --batch=16
    """

    against: str = flag(
        "published",
        "other variant: published, fast or none; further differences follow a colon, such as fast:precision=bfloat16 or auto:TF_ENABLE_ONEDNN_OPTS=0. The same variant gives a ratio near 1",
    )
    preset: str = flag("paper", "{names}", names=networks, placeholder="NAME")
    batch: int = flag(16, "showers per replica and step", ge=1, le=MAX_BATCH)
    conv_impl: ConvImplOption = flag("auto", "convolutions to measure; as in `train`")
    precision: Precision = flag(
        "float32",
        "float32, bfloat16, mixed or float64; for both variants unless --against sets another",
    )
    replicas: int = flag(
        1,
        "replicas in one process; for both variants unless --against sets another",
        ge=1,
        le=MAX_PROCESSES,
    )
    threads: int | None = flag(
        None, "threads per process", ge=1, le=MAX_PROCESSES, words="all cores"
    )
    rounds: int = flag(5, "rounds of each variant, after one for warm-up", ge=1, le=10**6)
    roofline: Annotated[Path | None, Text(_picture, "FILE.png")] = flag(
        None, "time each convolution alone and draw the roofline of this machine"
    )


class BenchInputOptions(BenchOptions):
    """Measures the input pipeline: reading, cutting, scaling, batching.

    Each round first evicts the files of the store from the page cache, and so measures cold and warm reading
    separately.

    Examples:
        cloudgan bench input --preset=mini --rounds=3
        cloudgan bench input --data=showers.h5 --measure-step
    """

    data: str = flag("", "showers; as for `train`", words="simulated ones", placeholder="DATA")
    unit: EcalUnit | None = UNIT
    preset: str = flag("paper", "image size and scale; {names}", names=networks, placeholder="NAME")
    batch: int | None = flag(
        None, "showers per batch", ge=1, le=MAX_BATCH, words="that of the preset"
    )
    threads: int | None = flag(None, "reader threads", ge=1, le=MAX_PROCESSES, words="one per core")
    showers: int = flag(4000, "number of showers to simulate without --data", ge=2, le=MAX_SHOWERS)
    rounds: int = flag(5, "rounds of each variant", ge=1, le=10**6)
    seconds: float = flag(1.0, "warm part of a round", gt=0, le=MAX_SECONDS)
    step_showers_per_second: float | None = flag(
        None, "speed of a step; for the ratio to it", gt=0, le=1e12
    )
    measure_step: bool = flag(False, "measure that speed first; as `cloudgan bench step` does")


class BenchGenerateOptions(BenchOptions):
    """Measures the time per shower of a generator, beside simulations.

    Those are the parametric source and Geant4. The generator runs in TensorFlow, as `generate` does, and as its ONNX export in ONNX Runtime. All
    alternate on one core with one thread each, unless --threads sets more, for electrons of the same
    energy. Untrained weights are as fast as trained ones. What is not installed is left out, with a
    note; the speeds are then compared with a recorded time of Geant4.

    Examples:
        cloudgan bench generate --preset=mini
        cloudgan bench generate --run=mine --energy=50
    """

    preset: str | None = flag(
        None, "{names}", words="mini, or that of the run", names=networks, placeholder="NAME"
    )
    run: str | None = flag(None, "a run, whose newest checkpoint is used", placeholder="RUN")
    batch: int | None = flag(
        None,
        "showers that the generators compute at a time",
        ge=1,
        le=MAX_BATCH,
        words="as `generate`, by the preset",
    )
    threads: int = flag(
        1,
        "threads of TensorFlow and ONNX Runtime; the simulations have one",
        ge=1,
        le=MAX_PROCESSES,
    )
    rounds: int = flag(5, "rounds of each source; of half a second or more", ge=1, le=10**6)
    energy: Annotated[tuple[float, float], RANGE] = flag(
        (50.0, 50.0),
        "energy of the electrons in GeV; a value or a range; the time of Geant4 is proportional to it",
    )


class BenchBandwidthOptions(BenchOptions):
    """Measures the bandwidth from each rank to each.

    Own memory is on the diagonal. One pair at a time, in turns, with messages of the size of the gradients of a preset and of 1 kB.
    Better-linked islands of ranks are named, with the --group of `train` that fits. Starts the ranks on this
    machine; with mpiexec or srun before the command it measures those of your site.

    Examples:
        cloudgan bench bandwidth --ranks=4
        cloudgan bench bandwidth --ranks=4 --preset=mini --report=bandwidth.html
    """

    ranks: int | None = flag(None, "ranks to start; 2 to 64", ge=1, le=MAX_PROCESSES, words="4")
    preset: str = flag("paper", "{names}", names=networks, placeholder="NAME")
    rounds: int = flag(
        10, "turns of each pair; fewer if they take longer than 18 s", ge=1, le=10**6
    )


class BenchCellsOptions(BenchOptions):
    """Measures grids of cells: one core against a rank per cell.

    The seconds of each routine are shown as well. The cells train the ring (`evolve --task=ring`). Engine one, pinned to one core, and engine ranks alternate. Grids with more cells than 4 and than
    cores have one core measured and ranks predicted, with a core per cell. The figures of the source,
    arXiv:2004.04633, stand beside ours.

    Examples:
        cloudgan bench cells --grids=2x2 --rounds=3
    """

    grids: Annotated[tuple[tuple[int, int], ...], Text(_grids, "RxC,RxC", joint=",")] = flag(
        ((2, 2), (3, 3), (4, 4)), "rows and columns of each grid", words="2x2,3x3,4x4"
    )
    rounds: int = flag(3, "runs of each grid and engine", ge=1, le=10**6)
    iterations: int = flag(
        4, "of each run; the first one, which traces, is not counted", ge=2, le=10**6
    )
    batches: int = flag(50, "batches of a cell per iteration", ge=1, le=MAX_STEP)
    batch: int = flag(100, "samples per batch", ge=1, le=MAX_BATCH)


class BenchParallelOptions(BenchOptions):
    """Predicts speed-up, staleness and load of masters for any number of workers.

    A discrete-event simulation from the times of a step, of a master's update and of a message, which
    are given or measured here. A prediction is marked as such. NNLO's published curve stands beside
    ours, with what explains both.

    Examples:
        cloudgan bench parallel --preset=mini --predict=8,20,100,128
        cloudgan bench parallel --preset=mini --workers=1,2
    """

    workers: Workers = flag(
        (),
        "start a master and this many workers here, such as 1,2,4, whose step sleeps, and predict from the times of one",
    )
    predict: Annotated[tuple[int, ...], _LAYOUTS] = flag((8, 20, 100, 128), "numbers of workers")
    masters: Annotated[tuple[int, ...], _LAYOUTS] = flag(
        (1, 4), "numbers of masters that serve them; above 1, rank 0 is above them"
    )
    preset: str = flag("mini", "{names}", names=networks, placeholder="NAME")
    mode: UpdateRule = flag("easgd", "update rule of the master")
    sync_every: int = flag(1, "steps of a worker between two exchanges", ge=1, le=10**6)
    step_seconds: float | None = flag(
        None,
        "time of a step; with one thread; with --workers 0.05",
        words="measured here",
        gt=0,
        le=MAX_SECONDS,
    )
    service_seconds: float | None = flag(
        None,
        "time of a master per update",
        gt=0,
        le=MAX_SECONDS,
        words="its update, measured here, with two copies",
    )
    message_seconds: float | None = flag(
        None,
        "time of a message, one way",
        ge=0,
        le=MAX_SECONDS,
        words="a copy of the weights in memory",
    )
    seconds: float = flag(5.0, "how long each number of workers is measured", gt=0, le=MAX_SECONDS)


class BenchScalingOptions(BenchOptions):
    """Measures replicas or workers against threads, by whole training runs.

    All have the same cores. Two efficiencies are shown: training only, without the start and the first call, and end to end.
    Independent runs on the same shares of the machine are measured, too: what they lose is the price of
    small batches, and what replicas lose against them is that of the exchange.

    Examples:
        cloudgan bench scaling --strong --replicas=1,2 --rounds=3
        cloudgan bench scaling --weak --workers=1,2 --batches=usual,64
    """

    strong: bool = flag(False, "strong scaling: the global batch is constant", screen=True)
    weak: bool = flag(False, "weak scaling: the batch per replica is constant", screen=True)
    replicas: Annotated[tuple[int, ...], _counts(MAX_PROCESSES)] = flag(
        (), "replicas of one process, such as 1,2; 1 is always measured", screen=True
    )
    workers: Workers = flag(
        (), "worker processes here with one replica each; such as 1,2", screen=True
    )
    presets: tuple[str, ...] = flag(
        ("mini",),
        "{names}; several such as smoke,mini",
        names=networks,
        placeholder="A,B",
        screen=True,
    )
    batches: Annotated[tuple[Batch, ...], Text(_batches, "A,B", joint=",")] = flag(
        ("usual",),
        "showers per step, of all replicas with --strong, of each with --weak: usual, largest (that should fit into the memory) or numbers, such as usual,64",
        screen=True,
    )
    predict: Annotated[tuple[int, ...], _counts(MAX_PROCESSES, 2)] = flag(
        (), "numbers of devices, such as 8,12, of which one is measured (--strong)", screen=True
    )
    steps: int | None = flag(
        None,
        "steps per run with the usual batch",
        ge=1,
        le=MAX_STEP,
        words="4 for paper, 20 for fixed25, else 300",
        screen=True,
    )
    conv_impl: ConvImplOption = flag("auto", "convolutions of all runs; as in `train`", screen=True)
    rounds: int = flag(3, "runs of each variant", ge=1, le=10**6, screen=True)
