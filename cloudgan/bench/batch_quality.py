"""Quality against the global batch: runs that see equally many training showers, validated at their end.

With equal showers a larger batch has fewer updates of the weights. Weak scaling over n devices multiplies
the global batch by n, so that the rows of a batch and of n times it show what it costs in quality. One
replica trains all batches: the order of the showers is that of one seed, whatever the batch.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cloudgan.bench.measurement import Rounds, spread
from cloudgan.bench.scaling import BASE, TWO_CALLS, make_study
from cloudgan.bench.training_program import make_showers, run_folder, run_train
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.core.ranges import MAX_SHOWERS
from cloudgan.reports.table import Number, Table
from cloudgan.schema import record
from cloudgan.schema.config import DataConfig
from cloudgan.schema.held_out import LEAST_TO_JUDGE, held_out_every
from cloudgan.schema.provenance import versions
from cloudgan.schema.stop_criterion import METRICS
from cloudgan.search.objectives import objective_median
from cloudgan.training.quality_evaluator import SHOWERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cloudgan.bench.measurement import Spread
    from cloudgan.bench.training_program import ProgramRun
    from cloudgan.core.progress import Progress
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.record import RunRecord

_EVERY = held_out_every(DataConfig().held_out_fraction, MAX_SHOWERS)
_LEAST_SHOWERS = (_EVERY - 1) * LEAST_TO_JUDGE
_EPOCH_SHOWERS = (_EVERY - 1) * SHOWERS
"""With fewer showers in an epoch, fewer would be held out than a validation uses."""


@dataclass(frozen=True)
class QualityStudy:
    """What is trained.

    Attributes:
        epochs: Of each run.
        epoch_showers: Training showers of an epoch.
        configs: One for each preset and batch, without data and seed.
    """

    epochs: int
    epoch_showers: int
    configs: tuple[RunConfig, ...]

    @property
    def simulated_showers(self) -> int:
        """Training showers and held-out showers."""
        return self.epoch_showers * _EVERY // (_EVERY - 1)


@dataclass(frozen=True)
class BatchRun:
    """One run.

    Attributes:
        seed: Of the run.
        steps: Trained steps.
        showers: Trained showers: up to a batch more than the epochs have.
        learning_rate: After scaling with the batch, if any.
        metrics: Numbers of its validation; None: not finite, or not measured.
        seconds_per_shower: Of training, without the first call.
    """

    seed: int
    steps: int
    showers: int
    learning_rate: float
    metrics: dict[str, float | None]
    seconds_per_shower: float


@dataclass(frozen=True)
class BatchPoint:
    """All runs of one preset and batch, by ascending seed."""

    preset: str
    global_batch: int
    runs: Sequence[BatchRun]

    @property
    def seconds_per_shower(self) -> Spread:
        """Over the seeds."""
        return spread([run.seconds_per_shower for run in self.runs])

    def metric(self, name: str) -> Spread | None:
        """Returns a validation number over the seeds; None: unknown for one of them."""
        values = [run.metrics[name] for run in self.runs]
        known = [value for value in values if value is not None]
        return spread(known) if len(known) == len(values) else None


@dataclass(frozen=True)
class QualityResult:
    """All runs of a study.

    Attributes:
        study: What was trained.
        points: In the order of a round; without those that have no run.
        interrupted: Whether Ctrl-C ended it early.
    """

    study: QualityStudy
    points: tuple[BatchPoint, ...]
    interrupted: bool


def make_quality_study(
    showers: int,
    *,
    presets: Sequence[str],
    batches: Sequence[int | Literal["usual", "largest"]],
    conv_impl: str = "auto",
) -> QualityStudy:
    """Returns the configurations whose runs see equally many showers.

    The runs train whole epochs, as only these are validated. The remainder of the showers, which is less
    than the number of epochs, is left out.

    Args:
        showers: Training showers that each run sees.
        presets: What is trained.
        batches: Showers per step, as for `make_study`.
        conv_impl: Formulation of the layers.

    Raises:
        ConfigError: Too few showers to validate or for a batch, fewer than two batches, or none fits.
    """
    if showers < _LEAST_SHOWERS:
        raise ConfigError(
            f"--quality={showers}: one shower of {_EVERY} is held out, and a validation needs"
            f" {LEAST_TO_JUDGE} of these; give --quality={_LEAST_SHOWERS} or more"
        )
    epochs = max(1, showers // _EPOCH_SHOWERS)
    configs = {}
    for preset in presets:
        sizes = set()
        for batch in batches:
            found = make_study("strong", [BASE], preset=preset, batch=batch, conv_impl=conv_impl)
            size = found.batch(BASE)
            _check_steps(showers, size)
            training = {"epochs": epochs, "max_steps": None, "validate_every": epochs}
            config = found.configs[BASE]
            training_config = config.training.model_copy(update=training)
            configs[preset, size] = config.model_copy(update={"training": training_config})
            sizes.add(size)
        if len(sizes) == 1:
            raise ConfigError(
                f"--quality compares batches, and {preset} has only that of {min(sizes)} showers:"
                " give several, such as --batches=16,32,64"
            )
    return QualityStudy(epochs, showers // epochs, tuple(configs.values()))


def _check_steps(showers: int, batch: int) -> None:
    if showers < TWO_CALLS * batch:
        raise ConfigError(
            f"--quality={showers} has fewer than {TWO_CALLS} steps with a batch of {batch} showers:"
            f" give --quality={TWO_CALLS * batch} or more, or --batches of at most"
            f" {showers // TWO_CALLS}"
        )


def measure_quality(study: QualityStudy, *, rounds: int, progress: Progress) -> QualityResult:
    """Trains each configuration with each seed on the same simulated showers.

    Args:
        study: What is trained.
        rounds: Seeds, from 0: a round is a run of each configuration with one seed.
        progress: Shows the runs.

    Raises:
        CloudganError: A run failed.
        Interrupted: Ctrl-C before the end of the first run.
    """
    with tempfile.TemporaryDirectory(prefix="cloudgan-bench-") as name:
        folder, shards = Path(name), {}
        for config in study.configs:
            preset = config.model.preset
            if preset not in shards:
                progress.start(f"simulating and converting {study.simulated_showers} showers")
                (folder / preset).mkdir()
                cells = config.model.image_shape[:2]
                shards[preset] = make_showers(folder / preset, study.simulated_showers, cells)
        turns = {
            _name(config): partial(
                _turn, config, shards[config.model.preset], folder / _name(config), count()
            )
            for config in study.configs
        }
        measured = Rounds(turns)
        measured.run(rounds, progress)
    taken = measured.results
    points = tuple(
        BatchPoint(config.model.preset, config.global_batch(1), taken[_name(config)])
        for config in study.configs
        if _name(config) in taken
    )
    return QualityResult(study, points, measured.interrupted)


def _name(config: RunConfig) -> str:
    return f"{config.model.preset}, batch {config.global_batch(1)}"


def _turn(config: RunConfig, shards: Path, folder: Path, seeds: Iterator[int]) -> BatchRun:
    seed = next(seeds)
    own = {
        "data": config.data.model_copy(update={"path": str(shards)}),
        "training": config.training.model_copy(update={"seed": seed}),
    }
    place = folder / str(seed)
    program = run_train(config.model_copy(update=own), place)
    return batch_run(seed, program, record.read(run_folder(place).record_file))


def batch_run(seed: int, program: ProgramRun, found: RunRecord) -> BatchRun:
    """Returns the figures of a run that has ended.

    Args:
        seed: Of the run.
        program: Its times.
        found: Its record.

    Raises:
        CloudganError: The record has no start.
    """
    started = found.started()
    if started is None:
        raise CloudganError("the run recorded no start")
    return BatchRun(
        seed=seed,
        steps=sum(epoch.steps for epoch in found.epochs()),
        showers=program.showers,
        learning_rate=started.learning_rate,
        metrics={name: objective_median(found, name) for name in METRICS},
        seconds_per_shower=1 / program.steady_showers_per_second,
    )


def quality_json(result: QualityResult) -> dict[str, Any]:
    """Returns all results by name; a number that a seed lacks is None."""
    return {
        "machine": this_machine().describe(),
        "versions": versions(),
        "training_showers": result.study.epochs * result.study.epoch_showers,
        "epochs": result.study.epochs,
        "interrupted": result.interrupted,
        "batches": [_point_json(point) for point in result.points],
    }


def _point_json(point: BatchPoint) -> dict[str, Any]:
    metrics = {name: point.metric(name) for name in METRICS}
    return {
        "preset": point.preset,
        "global_batch": point.global_batch,
        "steps": point.runs[0].steps,
        "learning_rate": point.runs[0].learning_rate,
        "metrics": {name: found.as_json() if found else None for name, found in metrics.items()},
        "seconds_per_shower": point.seconds_per_shower.as_json(),
        "runs": [asdict(run) for run in point.runs],
    }


def quality_table(result: QualityResult) -> Table:
    """A row for each preset and batch."""
    study = result.study
    rows = tuple(
        (
            *(point.preset, point.global_batch, point.runs[0].steps, point.runs[0].learning_rate),
            len(point.runs),
            *(_cell(point.metric(name)) for name in METRICS),
            _cell(point.seconds_per_shower),
        )
        for point in result.points
    )
    heads = ("preset", "showers per step", "steps", "learning rate", "seeds", *METRICS)
    said = (
        f"Quality after {study.epochs * study.epoch_showers:,} training showers, {study.epoch_showers:,}"
        " different ones, for each batch: numbers of the validation after the last step, 0 is perfect;"
        f" median (least to most) over seeds; {this_machine().describe()}. With equal showers a larger"
        " batch has fewer updates, so the rows of B and n x B showers per step show what weak scaling over"
        " n devices costs in quality. The learning rate does not grow with the batch (scale_lr: none), and"
        " batch norm sees the whole batch (batch_norm: synchronized)."
    )
    return Table((*heads, "s per shower"), rows, said, "l" + "r" * len(heads))


def _cell(found: Spread | None) -> Number | None:
    if found is None:
        return None
    text = found.describe() if found.count > 1 else f"{found.median:.3g}"
    return Number(found.median, text)
