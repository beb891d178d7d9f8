"""`cloudgan validate`: generated showers against Monte Carlo."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudgan.cli.checkpoint_step import Step, parse_step
from cloudgan.cli.output import show_json, shown_after, shown_progress
from cloudgan.cli.report_file import check_report, write_report_file
from cloudgan.cli.verdict_text import show_verdict
from cloudgan.core.errors import ConfigError, VerdictError

if TYPE_CHECKING:
    from cloudgan.core.progress import Progress
    from cloudgan.reports.table import Table
    from cloudgan.validation.assessment import Assessment
    from cloudgan.validation.gates import Gates
    from cloudgan.validation.plot_samples import Samples
    from cloudgan.validation.verdict import Verdict

OF_A_RUN = 1000
"""Showers that a run's generator makes for a verdict, unless another number is asked for."""


@dataclass(frozen=True)
class _Asked:
    """What is to be judged, by what."""

    run: str | None
    generated: str | None
    reference: str | None
    against: str | None
    step: Step
    showers: int | None
    seed: int

    def check(self) -> None:
        """Refuses what contradicts itself, before anything is read.

        Raises:
            ConfigError: Says what is missing or too much.
        """
        from cloudgan.validation.assessing import MIN_SHOWERS

        if self.run is None:
            self._check_files()
        elif self.generated is not None or self.reference is not None:
            raise ConfigError(
                f"{self.run} and two files: judge the run (--against=FILE names other Monte Carlo),"
                " or --generated=FILE by --reference=FILE, not both"
            )
        if self.showers is not None and self.showers < MIN_SHOWERS:
            raise ConfigError(
                f"--showers={self.showers}: at least {MIN_SHOWERS}; with fewer, chance is larger"
                " than what is looked for"
            )
        if self.seed < 0:
            raise ConfigError(f"--seed={self.seed}: zero or more")

    def _check_files(self) -> None:
        if self.generated is None and self.reference is None:
            raise ConfigError(
                "nothing to judge: give the folder of a run, or --generated=FILE and"
                " --reference=FILE"
            )
        if self.generated is None:
            raise ConfigError("--reference needs --generated=FILE beside it, the showers to judge")
        if self.reference is None:
            raise ConfigError("--generated needs --reference=FILE beside it, the Monte Carlo")
        for flag, value in (("--against", self.against), ("--step", self.step)):
            if value is not None:
                raise ConfigError(f"{flag} goes with a run, not with two files")


@dataclass(frozen=True)
class _Found:
    """What came out, however the showers came in."""

    title: str
    assessment: Assessment
    verdict: Verdict
    samples: Samples
    said: dict[str, Any]
    untrained: Assessment | None = None
    origins: tuple[Table, ...] = field(default=())


def validate(
    run: str | None = None,
    *,
    generated: str | None = None,
    reference: str | None = None,
    against: str | None = None,
    step: str | None = None,
    showers: int | None = None,
    seed: int = 0,
    gate: bool | str = False,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Compares generated showers with Monte Carlo, each number beside its floor, and judges them.

    Two files, or a run: its generator then makes showers at the energies and angles of held-back
    ones, or of a file. The verdict on a run's newest checkpoint is kept in its verdict.json. The
    floor is the same number for two random halves of the Monte Carlo: what chance alone gives.

    Args:
        run: Folder of a run, instead of two files.
        generated: Showers to judge: HDF5, TFRecord or a folder of shards.
        reference: Monte Carlo to judge them by, of the same shape.
        against: For a run: showers to compare with instead of the held-back ones.
        step: For a run: the checkpoint to judge, or best, which --validate_every found. Default:
            the newest.
        showers: At most this many of each. Default: all of two files, 1000 of a run.
        seed: Of the random halves, the errors and the classifiers.
        gate: End with exit code 7 where a gate is missed: the shipped ones, or those of a file in
            the form of cloudgan/validation/gates.toml.
        report: File for tables and figures: .html; tables alone: .md or .csv.
        json: Print the result as JSON.

    Examples:
        cloudgan validate --generated=mine.h5 --reference=geant4.h5 --report=mine.html
        cloudgan validate runs/mine --against=geant4.h5 --gate
    """
    asked = _Asked(run, generated, reference, against, parse_step(step), showers, seed)
    asked.check()
    check_report(report)
    from cloudgan.validation.gates import load_gates

    gates = load_gates(Path(gate) if isinstance(gate, str) else None)
    with shown_progress(as_json=json) as progress:
        found = (_of_files if run is None else _of_run)(asked, gates, progress)
        if report:
            progress.start("drawing the report")
            _write(found, Path(report))
    if json:
        show_json(found.said)
    else:
        show_verdict(found.assessment, found.verdict)
        if report:
            print(f"report: {report}")
    if gate and not found.verdict.passed:
        missed = [check.title for check in found.verdict.checks if check.grade == "fail"]
        raise shown_after(VerdictError(f"gates missed: {'; '.join(missed)}"), as_json=json)


def _of_files(asked: _Asked, gates: Gates, progress: Progress) -> _Found:
    from cloudgan.cli.file_pair import open_pair
    from cloudgan.validation.assessing import MIN_SHOWERS, Names, assess
    from cloudgan.validation.gates import judge
    from cloudgan.validation.observables import MOST_SHOWERS
    from cloudgan.validation.overlap import common_part
    from cloudgan.validation.plot_samples import Samples

    pair = open_pair(str(asked.generated), str(asked.reference), least=MIN_SHOWERS)
    ours, theirs = pair.measure(asked.showers or MOST_SHOWERS, progress)
    names = Names(pair.generated_name, pair.reference_name)
    assessment = assess(ours, theirs, seed=asked.seed, names=names, progress=progress)
    verdict = judge(assessment, gates)
    common = common_part(ours, theirs, least=MIN_SHOWERS, seed=asked.seed)
    return _Found(
        title=f"{pair.generated_name} against {pair.reference_name}",
        assessment=assessment,
        verdict=verdict,
        samples=Samples(common, *names, seed=asked.seed),
        said={
            "assessment": assessment.model_dump(mode="json"),
            "verdict": verdict.model_dump(mode="json"),
        },
        origins=pair.origins(),
    )


def _of_run(asked: _Asked, gates: Gates, progress: Progress) -> _Found:
    from cloudgan.cli.judgement import judge_run
    from cloudgan.run_folder import RunFolder

    folder = RunFolder(str(asked.run))
    judgement = judge_run(
        folder,
        progress,
        step=asked.step,
        against=asked.against,
        showers=asked.showers or OF_A_RUN,
        gates=gates,
        seed=asked.seed,
    )
    if asked.step is None:
        judgement.write(folder)
    return _Found(
        title=f"{folder.path.name}, step {judgement.step}, against {judgement.reference_name}",
        assessment=judgement.assessment,
        verdict=judgement.verdict,
        samples=judgement.samples,
        said=judgement.as_json(),
        untrained=judgement.untrained,
    )


def _write(found: _Found, path: Path) -> None:
    from cloudgan import __version__
    from cloudgan.cli.validation_page import validation_page

    page = validation_page(
        found.assessment,
        found.verdict,
        found.samples,
        title=f"Validation of {found.title}",
        version=__version__,
        untrained=found.untrained,
        origins=found.origins,
    )
    write_report_file(page, path)
