"""Validates showers against Monte Carlo: two files, or the generator of a run."""

from __future__ import annotations

from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Progress
from cloudgan.data.held_out import LEAST_TO_COMPARE
from cloudgan.data.manifest import describe_empty
from cloudgan.reports.notebook_progress import usual_progress
from cloudgan.schema.options.showers import ValidateOptions
from cloudgan.schema.run_folder import find_run_folder
from cloudgan.training.tensorflow_import import import_engine
from cloudgan.validation.assess import SampleNames, assess
from cloudgan.validation.file_pair import generated_note, open_pair
from cloudgan.validation.gates import Gates, apply_gates
from cloudgan.validation.observables import MAX_SHOWERS
from cloudgan.validation.overlap import overlap_region
from cloudgan.validation.result import Validation
from cloudgan.validation.samples import Samples


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
    if options.showers is not None and options.showers < LEAST_TO_COMPARE:
        raise ConfigError(
            f"--showers={options.showers}: expected at least {LEAST_TO_COMPARE}; a verdict needs some hundreds"
        )
    progress = progress or usual_progress()
    if options.run is None:
        return _validate_files(options, progress, gates, classify=classify)
    folder = find_run_folder(options.run)
    import_engine()  # without the messages of its libraries
    from cloudgan.api.validate_run import validate_run

    result = validate_run(folder, progress, options, gates=gates, classify=classify)
    if options.step is None:
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


def _validate_files(
    options: ValidateOptions, progress: Progress, gates: Gates | None, *, classify: bool
) -> Validation:
    """Validates a file of showers against a file of Monte Carlo."""
    pair = open_pair(
        str(options.generated),
        str(options.reference),
        unit=options.unit or "",
        binning=options.binning or "",
    )
    ours, theirs = pair.measure(options.showers or MAX_SHOWERS, progress)
    notes = generated_note(pair.reference_name, pair.reference)
    if empty := int(theirs.empty.sum()):  # those of a generator stay: they are its fault
        if empty == len(theirs):
            raise DataError(f"{pair.reference_name}: all {empty} showers are empty")
        notes += (f"{pair.reference_name}: {describe_empty(empty, len(theirs))}",)
        theirs = theirs[~theirs.empty]
    names = SampleNames(pair.generated_name, pair.reference_name)
    assessment = assess(
        ours,
        theirs,
        seed=options.seed,
        names=names,
        classify=classify,
        notes=notes,
        progress=progress,
    )
    overlap = overlap_region(ours, theirs, min_showers=LEAST_TO_COMPARE, seed=options.seed)
    return Validation(
        title=f"{pair.generated_name} against {pair.reference_name}",
        reference_name=pair.reference_name,
        samples=Samples(overlap, *names, seed=options.seed, pairs=pair.first_showers()),
        assessment=assessment,
        verdict=apply_gates(assessment, gates),
        provenance=pair.provenance(),
    )
