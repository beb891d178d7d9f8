"""`cloudgan validate`: generated showers against Monte Carlo."""

from __future__ import annotations

from pathlib import Path

from cloudgan.cli.options.values import parse_step
from cloudgan.cli.views.output import check_report, emit, progress_bars, write_report_file
from cloudgan.schema.ecal_unit import EcalUnit


def validate(
    run: str | None = None,
    *,
    generated: str | None = None,
    reference: str | None = None,
    against: str | None = None,
    unit: EcalUnit | None = None,
    step: str | None = None,
    showers: int | None = None,
    seed: int = 0,
    gate: bool | str = False,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Compares generated showers with Monte Carlo, each measure beside its MC-MC baseline.

    Validates two files, or a run: its generator gets the energies and angles of the reference. The
    verdict on a run's newest checkpoint is written to its verdict.json. The MC-MC baseline is the same
    measure for two random halves of the Monte Carlo: the effect of statistics alone.

    Args:
        run: Folder of a run, instead of two files.
        generated: Showers to validate: HDF5, TFRecord or a folder of shards.
        reference: Monte Carlo of the same shape.
        against: For a run: Monte Carlo instead of the held-out showers.
        unit: Unit of ECAL in files that state none, where several fit.
        step: For a run: number of the checkpoint's step, or best, which needs --validate-every.
            Default: the newest.
        showers: At most this many of each sample. Default: all of two files, 1000 of a run.
        seed: Of the random halves, the bootstrap errors and the classifiers.
        gate: Exit with code 7 if a gate fails: the shipped gates, or those of a file in the format of
            cloudgan/validation/gates.toml.
        report: File for tables and figures: .html; tables alone: .md or .csv.
        json: Print the result as JSON.

    Examples:
        cloudgan validate --generated=mine.h5 --reference=geant4.h5 --report=mine.html
        cloudgan validate runs/mine --against=geant4.h5 --gate
    """
    number = parse_step(step)
    check_report(report)
    from cloudgan.api import validate as api
    from cloudgan.validation.acceptance.gates import load_gates

    gates = load_gates(Path(gate) if isinstance(gate, str) else None)
    with progress_bars(as_json=json) as progress:
        result = api.validate(
            run,
            generated=generated,
            reference=reference,
            against=against,
            unit=unit,
            step=number,
            showers=showers,
            seed=seed,
            gates=gates,
            progress=progress,
        )
        if report:
            progress.start("drawing the report")
            write_report_file(result.page(), report)
    emit(result.result(report=report, gate=bool(gate)), as_json=json)
