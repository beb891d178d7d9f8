"""Validates showers against Monte Carlo: two files, or the generator of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cloudgan import __version__
from cloudgan.api.notebook_progress import usual_progress
from cloudgan.api.run import open_run
from cloudgan.api.shower_samples import load_generator
from cloudgan.api.tensorflow_import import import_tensorflow
from cloudgan.api.validation_page import (
    checks_table,
    condensed,
    headline,
    training_change,
    validation_page,
)
from cloudgan.api.validation_result import ValidationResult
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Progress
from cloudgan.data.showers import Showers, central, join_showers, measured_angle
from cloudgan.reports.page import Block, Graphic, Page, Paragraph, Section, fragment
from cloudgan.reports.table import Table
from cloudgan.schema import record
from cloudgan.schema.held_out import LEAST_TO_COMPARE, too_few_held_out
from cloudgan.schema.options.showers import ValidateOptions
from cloudgan.schema.run_folder import RunFolder, Step, shown_run
from cloudgan.training.conditions import Conditions
from cloudgan.training.inference import RunGenerator
from cloudgan.validation.acceptance.assessment import Assessment
from cloudgan.validation.acceptance.gates import Gates, Verdict
from cloudgan.validation.figures.samples import Samples
from cloudgan.validation.observables.observables import Observables

UNTRAINED_STEP = 0
RUN_SHOWERS = 1000
"""Showers that a run generates for a validation, by default."""

_SEED = 1
_SAMPLE_NOTES = {
    True: "In sample: {run} was trained on showers of {name}; for others this proves nothing.",
    None: "It is unknown whether {run} was trained on showers of {name}.",
}


@dataclass(frozen=True)
class RunFacts:
    """What only the validation of a run has.

    Attributes:
        folder: Of the run.
        step: Of the checkpoint.
        untrained: Assessment of the same network before its first step.
        change: What training changed, in one sentence.
    """

    folder: RunFolder
    step: int
    untrained: Assessment
    change: str


@dataclass(frozen=True)
class Validation:
    """Result of a validation; a notebook shows the headline, the checks and the figures.

    Attributes:
        title: SampleNames of both samples.
        reference_name: Name of the Monte Carlo.
        samples: Observables that the figures show.
        assessment: All measures, each with its error and its MC-MC baseline.
        verdict: Checks against the gates; ``verdict.passed`` and ``verdict.grade``.
        run: What only the validation of a run has.
        provenance: Properties of the files, a table per sample.
    """

    title: str
    reference_name: str
    samples: Samples
    assessment: Assessment
    verdict: Verdict
    run: RunFacts | None = None
    provenance: tuple[Table, ...] = ()

    def result(self, *, report: str | None = None, gate: bool = False) -> ValidationResult:
        """Returns the measures and the verdict, without the showers.

        Args:
            report: Page that was written.
            gate: Whether a failed check ends the command.
        """
        return ValidationResult(
            run=str(self.run.folder.path) if self.run else None,
            step=self.run.step if self.run else None,
            reference=self.reference_name,
            untrained=self.run.untrained if self.run else None,
            change=self.run.change if self.run else None,
            assessment=self.assessment,
            verdict=self.verdict,
            report=report,
            gate=gate,
        )

    def page(self) -> Page:
        """Returns the report: verdict, figures, all measures, provenance."""
        return validation_page(
            self.assessment,
            self.verdict,
            self.samples,
            title=f"Validation of {self.title}",
            version=__version__,
            untrained=self.run.untrained if self.run else None,
            change=self.run.change if self.run else "",
            provenance=self.provenance,
        )

    def write(self) -> None:
        """Writes verdict.json into the folder of the run, atomically; `cost` reads it."""
        if self.run:
            here = {"run", "report", "gate"}
            text = self.result().model_dump_json(indent=2, exclude=here) + "\n"
            write_atomic(self.run.folder.verdict_file, text.encode())

    def __repr__(self) -> str:
        return f"<Validation of {self.title}: {headline(self.assessment, self.verdict)}>"

    def _repr_html_(self) -> str:
        from cloudgan.validation.figures.figures import figures

        shown = figures(self.samples, self.assessment)
        blocks: tuple[Block, ...] = (
            Paragraph(headline(self.assessment, self.verdict)),
            checks_table(condensed(self.verdict)),
            *(Graphic(figure.svg, figure.caption) for figure in shown),
        )
        return fragment((Section(self.title, blocks),))


@command
def validate(
    options: ValidateOptions,
    *,
    gates: Gates | None = None,
    classify: bool = True,
    progress: Progress | None = None,
) -> Validation:
    """Validates the generator of a run, or a file of showers, against Monte Carlo.

    Args:
        options: The run, or the files.
        gates: Limits of the checks. Default: the shipped ones.
        classify: Train classifiers too, which takes most of the time.
        progress: Receives each task and its progress.

    Raises:
        ConfigError: The arguments contradict each other.
        DataError: A file is missing or damaged, too small, or of another shape.
    """
    _check_sources(options)
    step, showers = options.step, options.showers
    unit, binning = options.unit or "", options.binning or ""
    if showers is not None and showers < LEAST_TO_COMPARE:
        raise ConfigError(
            f"--showers={showers}: expected at least {LEAST_TO_COMPARE}; a verdict needs some hundreds"
        )
    progress = progress or usual_progress()
    if options.run is None:
        return validate_files(
            str(options.generated),
            str(options.reference),
            progress,
            unit=unit,
            binning=binning,
            showers=showers,
            seed=options.seed,
            gates=gates,
            classify=classify,
        )
    result = validate_run(
        open_run(options.run).folder,
        progress,
        step=step,
        against=options.against,
        unit=unit,
        binning=binning,
        showers=showers or RUN_SHOWERS,
        gates=gates,
        classify=classify,
        seed=options.seed,
    )
    if step is None:
        result.write()
    return result


def _check_sources(options: ValidateOptions) -> None:
    generated, reference = options.generated, options.reference
    if options.run is not None:
        if generated is not None or reference is not None:
            raise ConfigError(
                f"{options.run} and two files: validate the run (--against=FILE names other Monte Carlo), or"
                " --generated=FILE against --reference=FILE, not both"
            )
        return
    if generated is None and reference is None:
        raise ConfigError(
            "nothing to validate: give the folder of a run, or --generated=FILE and --reference=FILE"
        )
    if generated is None:
        raise ConfigError("--reference needs --generated=FILE, the showers to validate")
    if reference is None:
        raise ConfigError("--generated needs --reference=FILE, the Monte Carlo")
    for flag, value in (("--against", options.against), ("--step", options.step)):
        if value is not None:
            raise ConfigError(f"{flag} is only valid with a run, not with two files")


def validate_run(
    folder: RunFolder,
    progress: Progress,
    *,
    step: Step = None,
    against: str | None = None,
    unit: str = "",
    binning: str = "",
    showers: int = RUN_SHOWERS,
    gates: Gates | None = None,
    classify: bool = True,
    seed: int = 0,
) -> Validation:
    """Validates the generator of a run, trained and untrained, against the same reference.

    Args:
        folder: Of the run.
        progress: Receives each task and its progress.
        step: Of the checkpoint. Default: the newest.
        against: File of Monte Carlo, instead of the held-out showers.
        unit: Of ECAL in that file, if it states none.
        binning: Of its cells, see `open_source`.
        showers: At most this many.
        gates: Default: the shipped ones.
        classify: Train classifiers too.
        seed: Of the permutations, the bootstrap errors and the classifiers.
    """
    import_tensorflow()  # without the messages of its libraries
    from cloudgan.validation.acceptance.assess import SampleNames, assess
    from cloudgan.validation.acceptance.gates import apply_gates
    from cloudgan.validation.figures.showers import pick_pairs
    from cloudgan.validation.observables.observables import observe
    from cloudgan.validation.observables.overlap import overlap_region

    generator = load_generator(folder, step, progress)
    progress.start("reading the reference")
    name, reference, notes = _reference(
        folder, generator, against, showers, unit=unit, binning=binning
    )
    in_sample = _in_sample(folder, against, unit, binning) if against else False
    if against and in_sample is not False:
        notes = (_SAMPLE_NOTES[in_sample].format(run=folder.path.name, name=name), *notes)
        name = f"{name}, in sample" if in_sample else name
    _check_enough(folder, len(reference), against, LEAST_TO_COMPARE)
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


def _in_sample(folder: RunFolder, against: str, unit: str, binning: str) -> bool | None:
    """Whether a run trained on one of these files; None: its record does not say on which it did."""
    from cloudgan.data.sources import open_source

    started = record.read_if_whole(folder.record_file).started()
    if not (started and started.data_sha256):
        return None
    return not open_source(against, unit, binning).digests().isdisjoint(started.data_sha256)


def _check_enough(folder: RunFolder, count: int, against: str | None, needed: int) -> None:
    """Checks that a verdict is possible, before showers are generated for it."""
    if count >= needed:
        return
    if against:
        raise DataError(f"{against} has {count} showers, and a verdict needs {needed}")
    started = record.read_if_whole(folder.record_file).started()
    showers = started.training_showers + started.held_out_showers if started else 0
    raise DataError(too_few_held_out(shown_run(folder.path), count, showers, needed))


def validate_files(
    generated: str,
    reference: str,
    progress: Progress,
    *,
    unit: str = "",
    binning: str = "",
    showers: int | None = None,
    seed: int = 0,
    gates: Gates | None = None,
    classify: bool = True,
) -> Validation:
    """Validates a file of showers against a file of Monte Carlo; see `validate`."""
    from cloudgan.api.file_pair import open_pair
    from cloudgan.data.manifest import describe_empty
    from cloudgan.validation.acceptance.assess import SampleNames, assess
    from cloudgan.validation.acceptance.gates import apply_gates
    from cloudgan.validation.observables.observables import MAX_SHOWERS
    from cloudgan.validation.observables.overlap import overlap_region

    pair = open_pair(generated, reference, unit=unit, binning=binning)
    ours, theirs = pair.measure(showers or MAX_SHOWERS, progress)
    notes: tuple[str, ...] = ()
    if empty := int(theirs.empty.sum()):  # those of a generator stay: they are its fault
        if empty == len(theirs):
            raise DataError(f"{pair.reference_name}: all {empty} showers are empty")
        notes = (f"{pair.reference_name}: {describe_empty(empty, len(theirs))}",)
        theirs = theirs[~theirs.empty]
    names = SampleNames(pair.generated_name, pair.reference_name)
    assessment = assess(
        ours,
        theirs,
        seed=seed,
        names=names,
        classify=classify,
        notes=notes,
        progress=progress,
    )
    overlap = overlap_region(ours, theirs, min_showers=LEAST_TO_COMPARE, seed=seed)
    return Validation(
        title=f"{pair.generated_name} against {pair.reference_name}",
        reference_name=pair.reference_name,
        samples=Samples(overlap, *names, seed=seed, pairs=pair.first_showers()),
        assessment=assessment,
        verdict=apply_gates(assessment, gates),
        provenance=pair.provenance(),
    )


def _generated(
    generator: RunGenerator, reference: Showers, progress: Progress, kept: list[Showers]
) -> Observables:
    """Measures generated showers; the first ones are added to `kept`."""
    from cloudgan.validation.figures.showers import first_of
    from cloudgan.validation.observables.observables import observe_blocks

    conditions = Conditions.of(reference, generator.preset)
    blocks = generator.showers(conditions, seed=_SEED, progress=progress)
    name = f"generated showers, {generator.name}"
    return observe_blocks(first_of(blocks, kept), name, requested_rad=conditions.angle_rad)


def _reference(
    folder: RunFolder,
    generator: RunGenerator,
    against: str | None,
    limit: int,
    *,
    unit: str,
    binning: str,
) -> tuple[str, Showers, tuple[str, ...]]:
    """Returns held-out showers, or those of a file, cut to the shape of the generator, and notes."""
    shape = generator.preset.image_shape
    particle = generator.summary.particle
    notes: tuple[str, ...] = ()
    if against:
        name = Path(against).name
        showers, notes = _first_showers(
            against, limit, folder, particle, unit=unit, binning=binning
        )
    else:
        name, showers = "held-out Monte Carlo", _held_out(folder, generator, limit)
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


def _held_out(folder: RunFolder, generator: RunGenerator, limit: int) -> Showers:
    from cloudgan.data.batches import open_training_set
    from cloudgan.data.manifest import has_manifest

    config = generator.config
    named = Path(config.data.path)
    store = named if has_manifest(named) else folder.store
    return open_training_set(store, config.model, config.data).held_out(limit)


def _first_showers(
    file: str, limit: int, folder: RunFolder, particle: str | None, *, unit: str, binning: str
) -> tuple[Showers, tuple[str, ...]]:
    """Returns the first `limit` showers that are not empty, and a note about the others."""
    from cloudgan.api.file_pair import refuse_other_particle
    from cloudgan.data.manifest import describe_empty
    from cloudgan.data.sources import open_source

    source = open_source(file, unit, binning)
    trained = {particle} if particle else set()
    refuse_other_particle(f"the generator of {folder.path.name}", trained, file, source.particles)
    blocks, count, empty = [], 0, list[int]()
    for block in source.blocks(min(limit, 250), empty):
        blocks.append(block)
        count += len(block)
        if count >= limit:
            break
    note = f"{Path(file).name}: {describe_empty(len(empty), count + len(empty))}"
    return join_showers(blocks)[slice(0, limit)], (note,) * bool(empty)
