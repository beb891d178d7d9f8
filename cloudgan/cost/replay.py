"""The paper, replayed: its runs beside each other, and the comparisons that it drew from them.

Nothing here was measured by us: every number follows from the published run times and dated prices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.price_row import Text
from cloudgan.cost.paper import BASIS, SOURCE, paper_runs, priced_paper_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cloudgan.core.cost_report import MeasuredRun
    from cloudgan.cost.catalog import Catalog
    from cloudgan.cost.paper import PaperRun

RECOMPUTED = (
    "Recomputed from the published run times of arXiv:2111.04628 and dated prices; the paper's own"
    " figures of cost were not available to check against."
)
FED, STARVED = "prefetch", "no-prefetch"
_LAYOUT_GPUS = 32
_ONE_HOST_GPUS = 8
_PAPER_BATCH = 96
_JOB_EPOCHS = 60


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Scaling(_Part):
    """How a run compares with the smallest one of its kind.

    Two efficiencies stand side by side, of time and of samples: dropping the remainder of an epoch
    makes larger global batches see fewer showers. End to end counts tests and gaps too.
    """

    over: Text = Field(description="the run with the fewest accelerators of this kind and batch")
    speed_up: float = Field(gt=0, description="of the steady training time of an epoch")
    time_efficiency: float = Field(gt=0, description="speed-up over the ratio of accelerators")
    sample_efficiency: float = Field(gt=0, description="showers/s per accelerator, as a ratio")
    end_to_end_time_efficiency: float = Field(gt=0, description="of the wall time of an epoch")
    end_to_end_sample_efficiency: float = Field(gt=0, description="the same per shower")


class ReplayedRun(_Part):
    """One run of the paper: measured times, recomputed costs."""

    name: Text
    date: Text
    accelerator: Text
    accelerators: int = Field(gt=0, description="GPUs, or TPU chips")
    nodes: int = Field(gt=0)
    node_type: Text
    workers: int | None
    replicas: int = Field(gt=0)
    batch_per_replica: int = Field(gt=0)
    options: Text
    epochs: int = Field(gt=0)
    showers_per_epoch: int = Field(gt=0)
    steady_epoch_seconds: float = Field(gt=0)
    test_seconds: float = Field(gt=0)
    wall_epoch_seconds: float = Field(gt=0)
    first_epoch_seconds: float = Field(gt=0)
    showers_per_second: float = Field(gt=0, description="in steady training")
    showers_per_second_per_accelerator: float = Field(gt=0)
    scaling: Scaling
    usd_per_epoch: dict[str, float | None]
    usd_per_60_epochs: dict[str, float | None] = Field(
        description="60 epochs with the first one, tests and gaps, as measured"
    )
    price_rows: dict[str, str | None]


class Comparison(_Part):
    """One finding: two runs, and how they differ."""

    title: Text
    run: Text
    against: Text
    seconds_ratio: float = Field(gt=0, description="epoch of `against` over that of `run`")
    usd_ratio_2021: float | None = Field(description="the same of preemptible cost of 2020/21")
    usd_ratio: float | None = Field(description="the same of spot cost today")


class Replay(_Part):
    """All runs and what follows from them."""

    schema_version: int = 1
    statement: Text = RECOMPUTED
    source: Text = SOURCE
    basis: Text = BASIS
    runs: tuple[ReplayedRun, ...]
    prefetch: tuple[Comparison, ...] = Field(description="with prefetch against without")
    layouts: tuple[Comparison, ...] = Field(description="32 GPUs on different nodes and workers")
    batches: tuple[Comparison, ...] = Field(description="32 GPUs, batch 96 against smaller ones")
    tpu_against_gpu: tuple[Comparison, ...] = Field(description="one TPU device against 8 V100")


def replay(catalog: Catalog, runs: Iterable[PaperRun] | None = None) -> Replay:
    """Prices the paper's runs then and now, and compares them."""
    measured = tuple(paper_runs() if runs is None else runs)
    replayed = tuple(_replayed(run, measured, priced_paper_run(run, catalog)) for run in measured)
    return Replay(
        runs=replayed,
        prefetch=_prefetch(replayed),
        layouts=_layouts(replayed),
        batches=_batches(replayed),
        tpu_against_gpu=_tpu_against_gpu(replayed),
    )


def _replayed(run: PaperRun, runs: Sequence[PaperRun], priced: MeasuredRun) -> ReplayedRun:
    kept = {
        name: getattr(run, name) for name in type(run).model_fields if name != "steps_per_epoch"
    }
    rate = run.showers_per_epoch / run.steady_epoch_seconds
    job_epochs = run.first_epoch_seconds + (_JOB_EPOCHS - 1) * run.wall_epoch_seconds
    steady = run.steady_epoch_seconds
    return ReplayedRun(
        name=run.name,
        **kept,
        showers_per_second=rate,
        showers_per_second_per_accelerator=rate / run.accelerators,
        scaling=_scaling(run, _base(run, runs)),
        usd_per_epoch=priced.usd_per_epoch,
        usd_per_60_epochs={
            name: None if usd is None else usd / steady * job_epochs
            for name, usd in priced.usd_per_epoch.items()
        },
        price_rows=priced.price_rows,
    )


def _base(run: PaperRun, runs: Sequence[PaperRun]) -> PaperRun:
    """The smallest run with the same accelerator, batch and input; without one, the run itself."""
    alike = [
        other
        for other in runs
        if (other.accelerator, other.batch_per_replica, other.options)
        == (run.accelerator, run.batch_per_replica, run.options)
    ]
    return min(alike, key=lambda other: (other.accelerators, other.steady_epoch_seconds))


def _scaling(run: PaperRun, base: PaperRun) -> Scaling:
    size = run.accelerators / base.accelerators
    samples = run.showers_per_epoch / base.showers_per_epoch
    speed_up = base.steady_epoch_seconds / run.steady_epoch_seconds
    wall = base.wall_epoch_seconds / run.wall_epoch_seconds
    return Scaling(
        over=base.name,
        speed_up=speed_up,
        time_efficiency=speed_up / size,
        sample_efficiency=speed_up * samples / size,
        end_to_end_time_efficiency=wall / size,
        end_to_end_sample_efficiency=wall * samples / size,
    )


def _prefetch(runs: Sequence[ReplayedRun]) -> tuple[Comparison, ...]:
    found = []
    for starved in sorted(_of(runs, options=STARVED), key=lambda run: run.accelerators):
        place = {
            name: getattr(starved, name)
            for name in ("accelerator", "accelerators", "nodes", "workers", "batch_per_replica")
        }
        # Of several, the one of a like number of epochs: longer runs were made on another day.
        fed = min(
            _of(runs, options=FED, **place),
            key=lambda run: abs(run.epochs - starved.epochs),
            default=None,
        )
        if fed:
            title = f"{fed.accelerators} GPUs: {FED} against {STARVED}"
            found.append(_compared(title, fed, starved))
    return tuple(found)


def _layouts(runs: Sequence[ReplayedRun]) -> tuple[Comparison, ...]:
    alike = _of(
        runs,
        accelerator="V100",
        accelerators=_LAYOUT_GPUS,
        options=FED,
        batch_per_replica=_PAPER_BATCH,
    )
    if not alike:
        return ()
    best, *others = sorted(alike, key=lambda run: run.steady_epoch_seconds)
    return tuple(
        _compared(f"{_LAYOUT_GPUS} GPUs: {_layout(best)} against {_layout(run)}", best, run)
        for run in others
    )


def _layout(run: ReplayedRun) -> str:
    return f"{run.nodes} nodes x {run.accelerators // run.nodes}, {run.workers} workers"


def _batches(runs: Sequence[ReplayedRun]) -> tuple[Comparison, ...]:
    alike = [
        run
        for run in _of(runs, accelerator="V100", accelerators=_LAYOUT_GPUS, options=FED, nodes=4)
        if run.workers == run.nodes
    ]
    full = [run for run in alike if run.batch_per_replica == _PAPER_BATCH]
    if not full:
        return ()
    others = [run for run in alike if run.batch_per_replica != _PAPER_BATCH]
    return tuple(
        _compared(
            f"{_LAYOUT_GPUS} GPUs: batch {_PAPER_BATCH} against {run.batch_per_replica}, {run.date}",
            full[0],
            run,
        )
        for run in sorted(others, key=lambda run: -run.batch_per_replica)
    )


def _tpu_against_gpu(runs: Sequence[ReplayedRun]) -> tuple[Comparison, ...]:
    gpus = _of(runs, accelerator="V100", accelerators=_ONE_HOST_GPUS, options=FED)
    tpus = [run for run in runs if run.accelerator.startswith("TPU") and run.nodes == 1]
    tpus = [run for run in tpus if run.replicas == _ONE_HOST_GPUS]
    return tuple(
        _compared(f"one {tpu.accelerator} device against 8 V100", tpu, gpu)
        for tpu in sorted(tpus, key=lambda run: run.steady_epoch_seconds)
        for gpu in gpus[:1]
    )


def _of(runs: Sequence[ReplayedRun], **wanted: object) -> list[ReplayedRun]:
    return [
        run for run in runs if all(getattr(run, name) == value for name, value in wanted.items())
    ]


def _compared(title: str, run: ReplayedRun, against: ReplayedRun) -> Comparison:
    return Comparison(
        title=title,
        run=run.name,
        against=against.name,
        seconds_ratio=against.steady_epoch_seconds / run.steady_epoch_seconds,
        usd_ratio_2021=_ratio(against, run, "preemptible_2021"),
        usd_ratio=_ratio(against, run, "spot"),
    )


def _ratio(above: ReplayedRun, below: ReplayedRun, price: str) -> float | None:
    one, other = above.usd_per_epoch[price], below.usd_per_epoch[price]
    return None if one is None or other is None else one / other
