"""Validates the generator of a run, trained and untrained; loads TensorFlow."""

from __future__ import annotations

from pathlib import Path

from cloudgan.api.showers import load_generator
from cloudgan.core.errors import DataError
from cloudgan.core.progress import Progress
from cloudgan.data.batches import TrainingSet
from cloudgan.data.held_out import LEAST_TO_COMPARE, too_few_held_out
from cloudgan.data.manifest import describe_empty, has_manifest
from cloudgan.data.showers import Showers, central, join_showers, measured_angle
from cloudgan.data.sources import ShowerSource, open_source
from cloudgan.schema import record
from cloudgan.schema.options.showers import ValidateOptions
from cloudgan.schema.run_folder import RunFolder, shown_run
from cloudgan.training.inference import Conditions, RunGenerator
from cloudgan.validation.assess import SampleNames, assess
from cloudgan.validation.file_pair import generated_note, refuse_other_particle
from cloudgan.validation.gates import Gates, apply_gates
from cloudgan.validation.observables import Observables, observe, observe_blocks
from cloudgan.validation.overlap import overlap_region
from cloudgan.validation.page import training_change
from cloudgan.validation.result import RUN_SHOWERS, RunFacts, Validation
from cloudgan.validation.samples import Samples, first_of, pick_pairs

UNTRAINED_STEP = 0
_SEED = 1
_SAMPLE_NOTES = {
    True: "In sample: {run} was trained on showers of {name}; for others this proves nothing.",
    None: "It is unknown whether {run} was trained on showers of {name}.",
}


def validate_run(
    folder: RunFolder,
    progress: Progress,
    options: ValidateOptions,
    *,
    gates: Gates | None = None,
    classify: bool = True,
) -> Validation:
    """Validates the generator of a run, trained and untrained, against the same reference.

    Args:
        folder: Of the run.
        progress: Receives each task and its progress.
        options: Checkpoint, reference and number of showers, by default `RUN_SHOWERS`.
        gates: Default: the shipped ones.
        classify: Train classifiers too.

    Raises:
        DataError: The run has no such checkpoint, or the reference does not fit it.
    """
    against, seed = options.against, options.seed
    generator = load_generator(folder, options.step, progress)
    progress.start("reading the reference")
    name, reference, notes = _reference(folder, generator, options)
    in_sample = _in_sample(folder, against, options) if against else False
    if against and in_sample is not False:
        notes = (_SAMPLE_NOTES[in_sample].format(run=folder.path.name, name=name), *notes)
        name = f"{name}, in sample" if in_sample else name
    _check_enough(folder, len(reference), against)
    requested = Conditions.of(reference, generator.preset).angle_rad
    measured = observe(reference, name, requested_rad=requested)
    kept: list[Showers] = []
    trained = _generated(generator, reference, progress, kept)
    untrained = _generated(
        load_generator(folder, UNTRAINED_STEP, progress), reference, progress, []
    )
    at = generator.name
    before = assess(
        untrained, measured, seed=seed, names=SampleNames("untrained generator", name), classify=classify,
    )  # fmt: skip
    after = assess(
        trained, measured, seed=seed, names=SampleNames(f"generator, {at}", name), classify=classify, notes=notes, progress=progress,
    )  # fmt: skip
    verdict = apply_gates(after, gates, in_sample=in_sample)
    overlap = overlap_region(trained, measured, min_showers=LEAST_TO_COMPARE, seed=seed)
    return Validation(
        title=f"{folder.path.name}, {at}, against {name}",
        reference_name=name,
        samples=Samples(
            overlap,
            after.generated.name,
            name,
            untrained,
            seed,
            pick_pairs(join_showers(kept), reference[slice(0, sum(map(len, kept)))], matched=True),
        ),
        assessment=after,
        verdict=verdict,
        run=RunFacts(
            folder, generator.step, before, training_change(verdict, apply_gates(before, gates))
        ),
    )


def _in_sample(folder: RunFolder, against: str, options: ValidateOptions) -> bool | None:
    """Whether a run trained on one of these files; None: its record does not say on which it did."""
    started = record.read_if_whole(folder.record_file).started()
    if not (started and started.data_sha256):
        return None
    digests = open_source(against, options.unit or "", options.binning or "").digests()
    return not digests.isdisjoint(started.data_sha256)


def _check_enough(folder: RunFolder, count: int, against: str | None) -> None:
    """Checks that a verdict is possible, before showers are generated for it.

    Raises:
        DataError: There are too few showers; the message names the ways out.
    """
    if count >= LEAST_TO_COMPARE:
        return
    if against:
        raise DataError(f"{against} has {count} showers, and a verdict needs {LEAST_TO_COMPARE}")
    started = record.read_if_whole(folder.record_file).started()
    showers = started.training_showers + started.held_out_showers if started else 0
    raise DataError(too_few_held_out(shown_run(folder.path), count, showers, LEAST_TO_COMPARE))


def _generated(
    generator: RunGenerator, reference: Showers, progress: Progress, kept: list[Showers]
) -> Observables:
    """Measures generated showers; the first ones are added to `kept`."""
    conditions = Conditions.of(reference, generator.preset)
    blocks = generator.showers(conditions, seed=_SEED, progress=progress)
    name = f"generated showers, {generator.name}"
    return observe_blocks(first_of(blocks, kept), name, requested_rad=conditions.angle_rad)


def _reference(
    folder: RunFolder, generator: RunGenerator, options: ValidateOptions
) -> tuple[str, Showers, tuple[str, ...]]:
    """Returns held-out showers, or those of a file, cut to the shape of the generator, and notes."""
    against, limit = options.against, options.showers or RUN_SHOWERS
    shape = generator.preset.image_shape
    notes: tuple[str, ...] = ()
    if against:
        name = Path(against).name
        source = open_source(against, options.unit or "", options.binning or "")
        particle = generator.summary.particle
        trained = {particle} if particle else set()
        who = f"the generator of {folder.path.name}"
        refuse_other_particle(who, trained, against, source.particles)
        showers, notes = _first_showers(name, source, limit)
    else:
        name, config = "held-out Monte Carlo", generator.config
        named = Path(config.data.path)
        store = named if has_manifest(named) else folder.store
        showers = TrainingSet.open(store, config.model, config.data).held_out(limit)
    if showers.ecal_gev.shape[1:] == shape:
        return name, showers, notes
    try:
        ecal = central(showers.ecal_gev, shape)
    except ValueError as error:
        raise DataError(
            f"{against or folder.store}: {error}, the shape of the generator"
        ) from error
    # The measured angle of a cut image differs from that of the whole one; the generator was trained
    # on cut ones.
    cut = Showers(ecal, showers.energy_gev, showers.theta_rad, measured_angle(ecal))
    return name, cut, notes


def _first_showers(name: str, source: ShowerSource, limit: int) -> tuple[Showers, tuple[str, ...]]:
    """Returns the first `limit` showers that are not empty, and notes about the others and who made them."""
    blocks, count, empty = [], 0, list[int]()
    for block in source.blocks(min(limit, 250), empty):
        blocks.append(block)
        count += len(block)
        if count >= limit:
            break
    note = f"{name}: {describe_empty(len(empty), count + len(empty))}"
    notes = (*generated_note(name, source), *(note,) * bool(empty))
    return join_showers(blocks)[slice(0, limit)], notes
