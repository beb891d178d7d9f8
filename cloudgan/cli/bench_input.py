"""`cloudgan bench input`: how fast showers reach a training step."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.bucket_shards import fetched
from cloudgan.cli.output import show_json, shown_after, shown_progress
from cloudgan.cli.tensorflow_import import import_tensorflow
from cloudgan.core.config import DEFAULT_BATCH
from cloudgan.core.errors import ConfigError, Interrupted
from cloudgan.core.hardware import this_machine
from cloudgan.core.presets import find_preset
from cloudgan.data.manifest import has_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.bench.input import InputResult
    from cloudgan.core.progress import Progress


def input_(
    *,
    data: str = "",
    preset: str = "paper",
    batch: int | None = None,
    threads: int | None = None,
    showers: int = 4000,
    rounds: int = 5,
    seconds: float = 1.0,
    step_showers_per_second: float | None = None,
    beside_step: bool = False,
    json: bool = False,
) -> None:
    """Measures the feed that `train` reads from: reading, decoding, cutting, scaling, to dense batches.

    Three ways take turns: showers decoded as they are needed, prepared ones in memory, and prepared ones
    in a file beside the shards. In each turn the files first leave the system's memory, so that cold and
    warm reading are told apart. The numbers that training gets are the same in all three.

    Args:
        data: Showers, as `train` takes them. Default: the parametric source's, in a temporary folder.
        preset: paper, mini, fixed25 or smoke: what of a shower is seen.
        batch: Showers per batch. Default: the preset's.
        threads: Readers. Default: one for each core.
        showers: How many to simulate where no data are named.
        rounds: Turns of each.
        seconds: How long the warm part of a turn lasts.
        step_showers_per_second: What a training step takes; the ratio to it is told.
        beside_step: Measure that here first, as `cloudgan bench step` does.
        json: Print the result as JSON.
    """
    view = find_preset(preset)
    counts = (rounds, showers - 1, batch, threads)
    if any(count is not None and count < 1 for count in counts) or seconds <= 0:
        raise ConfigError(
            "--rounds, --batch and --threads are at least 1, --showers 2, --seconds above 0"
        )
    if step_showers_per_second is not None and (beside_step or step_showers_per_second <= 0):
        raise ConfigError("--step_showers_per_second is a positive number, or say --beside_step")
    size = batch or DEFAULT_BATCH[view.networks]
    readers = threads or this_machine().cores
    with shown_progress(as_json=json) as progress, _shards(data, showers, progress) as folder:
        import_tensorflow()
        from cloudgan.bench.input import Asked, measure_input

        if beside_step:
            step_showers_per_second = _step_rate(preset, size, readers, progress)
        asked = Asked(folder, view, size, readers, seconds)
        result = measure_input(
            asked, rounds=rounds, step_showers_per_second=step_showers_per_second, progress=progress
        )
    _tell(result, as_json=json)


@contextmanager
def _shards(data: str, count: int, progress: Progress) -> Iterator[Path]:
    """Gives a folder of shards: the one that is named, or one that goes when the block ends."""
    with tempfile.TemporaryDirectory(prefix="cloudgan-") as made, fetched(data, progress) as source:
        if data and has_manifest(source):
            yield Path(source)
            return
        simulated = Path(made, "showers.h5")
        if not data:
            _simulate(simulated, count, progress)
        import_tensorflow()
        from cloudgan.data.convert import convert

        convert(source or str(simulated), Path(made, "shards"), progress=progress)
        yield Path(made, "shards")


def _simulate(path: Path, count: int, progress: Progress) -> None:
    from cloudgan.data.hdf5_writer import write_hdf5
    from cloudgan.simulation.gflash import simulate

    progress.start("simulating", count, "showers")
    write_hdf5(path, simulate(count, seed=0), attrs={}, progress=progress)


def _step_rate(preset: str, batch: int, threads: int, progress: Progress) -> float:
    from cloudgan.bench.step import measure_step
    from cloudgan.bench.variant import make_variant

    training = {"batch_per_replica": batch, "threads": threads}
    variant = make_variant("auto", preset, training, {})
    result = measure_step(variant, None, rounds=3, layers=False, progress=progress)
    return result.own.showers_per_second.median


def _tell(result: InputResult, *, as_json: bool) -> None:
    from cloudgan.bench.input_report import input_json, input_lines, input_table
    from cloudgan.cli.table_view import show_table

    if as_json:
        show_json(input_json(result))
    else:
        show_table(input_table(result))
        print("\n".join(input_lines(result)))
    if result.interrupted:
        raise shown_after(Interrupted("stopped; these are the rounds until then"), as_json=as_json)
