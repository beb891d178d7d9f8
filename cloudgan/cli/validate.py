"""`cloudgan validate`: generated showers against Monte Carlo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.checkpoint_step import parse_step
from cloudgan.cli.judgement import Judgement, judge_run
from cloudgan.cli.output import show_json, shown_progress
from cloudgan.core.errors import ConfigError, VerdictError
from cloudgan.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.reports.page import Section, Table
    from cloudgan.validation.verdict import Check


def validate(
    run: str,
    *,
    against: str | None = None,
    showers: int = 1000,
    step: str | None = None,
    gate: bool = False,
    gates: str | None = None,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Compares showers of a run's generator with held-back ones, each number beside its floor.

    The verdict on the newest checkpoint is kept in the run's verdict.json.

    The floor is the same number for two random halves of the Monte Carlo: what chance alone gives.

    Args:
        run: Folder of the run.
        against: Showers to compare with instead of the held-back ones, such as a Geant4 file.
        showers: At most this many.
        step: Checkpoint to judge, or best, which --validate_every found. Default: the newest.
        gate: End with exit code 7 where a threshold is missed.
        gates: File with your own thresholds, in the form of cloudgan/validation/gates.toml.
        report: HTML page to write.
        json: Print the result as JSON.
    """
    from cloudgan.validation.gates import load_gates

    folder = RunFolder(run)
    wanted = parse_step(step)
    thresholds = load_gates(Path(gates)) if gates else load_gates()
    if showers < 1:
        raise ConfigError(f"--showers={showers}: at least one")
    with shown_progress(as_json=json) as progress:
        judgement = judge_run(
            folder, progress, step=wanted, against=against, showers=showers, gates=thresholds
        )
    if step is None:
        judgement.write(folder)
    if report:
        from cloudgan.reports import page

        title = f"Validation of {folder.path.name}, step {judgement.step}"
        page.write(page.Page(title, sections=tuple(sections(judgement))), Path(report))
    if json:
        show_json(judgement.as_json())
    else:
        print("\n".join(lines(judgement)))
    if gate and not judgement.verdict.passed:
        missed = [check.title for check in judgement.verdict.checks if check.grade == "fail"]
        raise VerdictError(f"missed: {'; '.join(missed)}")


def lines(judgement: Judgement) -> Iterator[str]:
    """The verdict for people."""
    verdict = judgement.verdict
    count = judgement.assessment.reference.showers
    yield f"step {judgement.step} against {count} showers, {judgement.reference_name}"
    for check in verdict.checks:
        measure = check.measure
        yield (
            f"  {'MISSED' if check.grade == 'fail' else 'ok    '} {check.title:<52}"
            f" {_number(measure.value):>8}  wanted {_limit(check):<16} floor {_number(measure.floor)}"
        )
    if judgement.not_learned:
        yield "not learned:"
    yield from (f"  - {line}" for line in judgement.not_learned)
    yield from (f"  note: {note}" for note in verdict.notes)


def sections(judgement: Judgement) -> Iterator[Section]:
    """The verdict for a page: table, figures, and what was not learned."""
    from cloudgan.reports.page import Bullets, Graphic, Mark, Paragraph, Section, Table
    from cloudgan.validation.plots import figures

    verdict = judgement.verdict
    table = Table(
        ("property", "trained", "wanted", "floor", "verdict"),
        tuple(
            (c.title, c.measure.value, _limit(c), c.measure.floor, Mark(c.grade != "fail"))
            for c in verdict.checks
        ),
        "Ratios are generated over Monte Carlo. The floor is the same number for two random halves"
        " of the Monte Carlo.",
        "lrlrl",
    )
    yield Section(
        "Did it learn?",
        (
            Paragraph(
                f"{judgement.assessment.generated.showers} showers of the generator after"
                f" {judgement.step} steps, asked for the energies and angles of as many showers"
                f" that it never saw ({judgement.reference_name})."
            ),
            table,
            _before_and_after(judgement),
        ),
    )
    wrong = (
        Bullets(judgement.not_learned)
        if judgement.not_learned
        else Paragraph("Nothing measured here.")
    )
    notes = (Bullets(verdict.notes),) if verdict.notes else ()
    yield Section("What it did not learn", (wrong, *notes))
    drawn = figures(judgement.samples)
    yield Section("Showers", tuple(Graphic(svg, _CAPTIONS[name]) for name, svg in drawn.items()))


_CAPTIONS = {
    "response": "Energy response: energy in all cells over primary energy.",
    "profiles": "Mean energy per layer and per column along y and x; below, the ratio to Monte Carlo.",
    "hits": "Cells above 0.3 MeV.",
    "angle": "Angle measured from the image against the requested one.",
    "spectrum": "Energies of single cells.",
}


def _before_and_after(judgement: Judgement) -> Table:
    from cloudgan.reports.page import Table

    before = {(m.name, m.where): m.value for m in judgement.untrained.measures}
    rows = tuple(
        (
            f"{m.name.replace('_', ' ')}{', ' * bool(m.where)}{m.where}",
            before[m.name, m.where],
            m.value,
        )
        for m in judgement.assessment.measures
        if (m.name, m.where) in before
    )
    return Table(
        ("property", "untrained (output calibrated)", "trained"),
        rows,
        "The same network before the first step and now. The energy response is nearly right before"
        " training, because the output is calibrated on training showers: what shows learning is"
        " all the rest.",
    )


def _limit(check: Check) -> str:
    ideal = check.measure.ideal
    if ideal:
        return f"{ideal - check.acceptable:.4g} to {ideal + check.acceptable:.4g}"
    return f"at most {check.acceptable:.4g}"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"
