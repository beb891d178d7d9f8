"""A run's generator against held-back Monte Carlo: what `validate` and `demo` both show."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudgan.cli.generate import load_generator
from cloudgan.core.errors import DataError
from cloudgan.core.whole_file import write_whole

if TYPE_CHECKING:
    from cloudgan.core.progress import Progress
    from cloudgan.data.showers import Showers
    from cloudgan.run_folder import RunFolder
    from cloudgan.training.generating import TrainedGenerator
    from cloudgan.validation.comparison import Comparison
    from cloudgan.validation.gates import Gates, Verdict
    from cloudgan.validation.plots import Samples

UNTRAINED_STEP = 0
_SEED = 1


@dataclass(frozen=True)
class Judgement:
    """What was compared and what came out."""

    step: int
    reference_name: str
    samples: Samples
    comparison: Comparison
    untrained: Comparison
    verdict: Verdict

    def as_json(self) -> dict[str, Any]:
        """The numbers, without the showers."""
        return {
            "step": self.step,
            "reference": self.reference_name,
            "verdict": self.verdict.model_dump(mode="json"),
            "trained": self.comparison.model_dump(mode="json"),
            "untrained": self.untrained.model_dump(mode="json"),
        }

    def write(self, folder: RunFolder) -> None:
        """Writes verdict.json into the run's folder, whole or not at all; `cost` reads it.

        Raises:
            DataError: It cannot be written.
        """
        write_whole(folder.verdict_file, f"{json.dumps(self.as_json(), indent=2)}\n".encode())


def judge_run(
    folder: RunFolder,
    progress: Progress,
    *,
    step: int | None = None,
    against: str | None = None,
    showers: int = 1000,
    gates: Gates | None = None,
) -> Judgement:
    """Generates showers, trained and untrained, and holds both against the same reference.

    Raises:
        DataError: There is no checkpoint, or no reference that fits it.
    """
    from cloudgan.validation.comparison import compare_observables
    from cloudgan.validation.gates import judge
    from cloudgan.validation.observables import observe
    from cloudgan.validation.plots import Samples

    generator = load_generator(folder, step)
    progress.start("reading the reference")
    name, reference = _reference(folder, generator, against, showers)
    measured = observe(reference, name, requested_rad=reference.mtheta_rad)
    trained = observe(_generated(generator, reference, progress), "generated showers")
    before = load_generator(folder, UNTRAINED_STEP)
    untrained = observe(_generated(before, reference, progress), "untrained showers")
    progress.start("comparing")
    comparison = compare_observables(trained, measured)
    baseline = compare_observables(untrained, measured)
    return Judgement(
        generator.state.step,
        name,
        Samples(measured, trained, untrained, reference_name=name),
        comparison,
        baseline,
        judge(comparison, gates, baseline),
    )


def _generated(generator: TrainedGenerator, reference: Showers, progress: Progress) -> Showers:
    from cloudgan.data.showers import join_showers
    from cloudgan.training.generating import Conditions

    asked = Conditions(reference.energy_gev, reference.mtheta_rad, reference.theta_rad)
    return join_showers(generator.showers(asked, seed=_SEED, progress=progress))


def _reference(
    folder: RunFolder, generator: TrainedGenerator, against: str | None, limit: int
) -> tuple[str, Showers]:
    """Held-back showers, or those of a file, cut to what the generator makes."""
    from cloudgan.data.showers import Showers, central, measured_angle

    shape = generator.preset.image_shape
    name, showers = (
        (Path(against).name, _first(against, limit))
        if against
        else ("held-back Monte Carlo", _held_back(folder, generator, limit))
    )
    if showers.ecal_gev.shape[1:] == shape:
        return name, showers
    try:
        ecal = central(showers.ecal_gev, shape)
    except ValueError as error:
        raise DataError(
            f"{against or folder.shards}: {error}, which the generator makes"
        ) from error
    # The angle of a cut image is not that of the whole one, and the generator saw cut ones.
    return name, Showers(ecal, showers.energy_gev, showers.theta_rad, measured_angle(ecal))


def _held_back(folder: RunFolder, generator: TrainedGenerator, limit: int) -> Showers:
    from cloudgan.data.manifest import has_manifest
    from cloudgan.data.training_set import open_training_set

    config = generator.state.config
    named = Path(config.data.path)
    shards = named if has_manifest(named) else folder.shards
    return open_training_set(shards, config.model, config.data, cache="none").held_back(limit)


def _first(against: str, limit: int) -> Showers:
    from cloudgan.data.showers import join_showers
    from cloudgan.data.source import open_source

    blocks, count = [], 0
    for block in open_source(against).blocks(min(limit, 250)):
        blocks.append(block)
        count += len(block)
        if count >= limit:
            break
    return join_showers(blocks)[slice(0, limit)]
