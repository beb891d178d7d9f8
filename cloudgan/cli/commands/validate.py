"""`cloudgan validate`: generated showers against Monte Carlo."""

from __future__ import annotations

from pathlib import Path

from cloudgan.cli.views.output import write_report_file
from cloudgan.core.command import body_of, command
from cloudgan.core.progress import Progress
from cloudgan.reports.result import Result
from cloudgan.schema.options.showers import ValidateOptions


@command
def validate(options: ValidateOptions, *, progress: Progress) -> Result:
    """Returns the verdict and its measures."""
    from cloudgan.api import validate as api
    from cloudgan.validation.acceptance.gates import load_gates

    gates = load_gates(Path(options.gate)) if isinstance(options.gate, str) else None
    found = body_of(api.validate)(options, gates=gates, progress=progress)
    if options.report:
        progress.start("drawing the report")
        write_report_file(found.page(), options.report)
    return found.result(report=options.report, gate=bool(options.gate))
