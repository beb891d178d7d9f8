"""`cloudgan validate`: generated showers against Monte Carlo."""

from __future__ import annotations

from pathlib import Path

from cloudgan.cli.views.output import (
    check_report,
    mark_printed,
    print_json,
    progress_bars,
    write_report_file,
)
from cloudgan.core.command import command
from cloudgan.core.errors import VerdictError
from cloudgan.schema.options.showers import ValidateOptions


@command
def validate(options: ValidateOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    number = options.step
    check_report(options.report)
    from cloudgan.api import validate as api
    from cloudgan.validation.acceptance.gates import load_gates

    gates = load_gates(Path(options.gate) if isinstance(options.gate, str) else None)
    with progress_bars(as_json=as_json) as progress:
        result = api.validate(
            options.run,
            generated=options.generated,
            reference=options.reference,
            against=options.against,
            unit=options.unit,
            step=number,
            showers=options.showers,
            seed=options.seed,
            gates=gates,
            progress=progress,
        )
        if options.report:
            progress.start("drawing the report")
            write_report_file(result.page(), options.report)
    if as_json:
        print_json(result.as_json())
    else:
        from cloudgan.cli.views.verdict import print_verdict

        print_verdict(result.assessment, result.verdict)
        if options.report:
            print(f"report: {options.report}")
    if options.gate and not result.verdict.passed:
        missed = [check.title for check in result.verdict.checks if check.grade == "fail"]
        raise mark_printed(VerdictError(f"gates missed: {'; '.join(missed)}"), as_json=as_json)
