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
    from cloudgan.cli.checkpoint_step import Step
    from cloudgan.core.progress import Progress
    from cloudgan.data.showers import Showers
    from cloudgan.run_folder import RunFolder
    from cloudgan.training.generating import TrainedGenerator
    from cloudgan.validation.assessment import Assessment
    from cloudgan.validation.gates import Gates
    from cloudgan.validation.observables import Observables
    from cloudgan.validation.plot_samples import Samples
    from cloudgan.validation.verdict import Verdict

UNTRAINED_STEP = 0
DEMO_SHOWERS = 20
"""A demo judges as few as that, to show how it is done: its gates are wide."""

_SEED = 1


@dataclass(frozen=True)
class Judgement:
    """What was compared and what came out.

    Attributes:
        step: Of the checkpoint.
        reference_name: Of the Monte Carlo.
        samples: What the figures are drawn from.
        assessment: Of the trained generator.
        untrained: Of the same network before its first step.
        verdict: By the gates that were asked for.
        not_learned: What broke by the shipped gates, whatever was asked for.
    """

    step: int
    reference_name: str
    samples: Samples
    assessment: Assessment
    untrained: Assessment
    verdict: Verdict
    not_learned: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The numbers, without the showers."""
        return {
            "step": self.step,
            "reference": self.reference_name,
            "verdict": self.verdict.model_dump(mode="json"),
            "not_learned": list(self.not_learned),
            "assessment": self.assessment.model_dump(mode="json"),
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
    step: Step = None,
    against: str | None = None,
    showers: int = 1000,
    gates: Gates | None = None,
    least: int | None = None,
    classify: bool = True,
    seed: int = 0,
) -> Judgement:
    """Generates showers, trained and untrained, and holds both against the same reference.

    Both are asked for the energies and measured angles of the reference, event by event.

    Args:
        folder: Of the run.
        progress: Told of each part.
        step: Of the checkpoint. Default: the newest.
        against: Showers of a file, instead of held-back ones.
        showers: At most this many.
        gates: Default: the shipped ones.
        least: Fewer showers are refused. Default: `MIN_SHOWERS` of an assessment.
        classify: Train classifiers too: most of the time.
        seed: Of halvings, errors and classifiers.

    Raises:
        DataError: There is no checkpoint, or no reference that fits it.
    """
    from cloudgan.validation.assessing import MIN_SHOWERS, Names, assess
    from cloudgan.validation.gates import judge
    from cloudgan.validation.learning import with_learning
    from cloudgan.validation.observables import observe
    from cloudgan.validation.overlap import common_part
    from cloudgan.validation.plot_samples import Samples

    least = MIN_SHOWERS if least is None else least
    generator = load_generator(folder, step)
    progress.start("reading the reference")
    name, reference = _reference(folder, generator, against, showers)
    measured = observe(reference, name, requested_rad=reference.mtheta_rad)
    trained = _generated(generator, reference, progress)
    untrained = _generated(load_generator(folder, UNTRAINED_STEP), reference, progress)
    at = generator.state.step
    before = assess(
        untrained, measured, seed=seed, names=Names("untrained generator", name), least=least,
        classify=False,
    )  # fmt: skip
    after = assess(
        trained, measured, seed=seed, names=Names(f"generator, step {at}", name), least=least,
        classify=classify, progress=progress,
    )  # fmt: skip
    after = with_learning(after, before)
    common = common_part(trained, measured, least=least, seed=seed)
    return Judgement(
        at,
        name,
        Samples(common, after.generated.name, name, untrained, seed),
        after,
        before,
        judge(after, gates),
        judge(after).broken,
    )


def judge_demo(folder: RunFolder, progress: Progress) -> Judgement:
    """Judges a demo by its own gates, and without classifiers.

    Raises:
        DataError: As of `judge_run`.
    """
    from cloudgan.validation.gates import demo_gates

    return judge_run(folder, progress, gates=demo_gates(), least=DEMO_SHOWERS, classify=False)


def _generated(generator: TrainedGenerator, reference: Showers, progress: Progress) -> Observables:
    from cloudgan.training.generating import Conditions
    from cloudgan.validation.observables import observe_blocks

    asked = Conditions(reference.energy_gev, reference.mtheta_rad, reference.theta_rad)
    blocks = generator.showers(asked, seed=_SEED, progress=progress)
    name = f"generated showers, step {generator.state.step}"
    return observe_blocks(blocks, name, requested_rad=reference.mtheta_rad)


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
