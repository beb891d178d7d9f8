"""`cloudgan demo`: simulation, training, validation and cost on this machine."""

from __future__ import annotations

from cloudgan.api import demo as api
from cloudgan.cli.views.output import emit, progress_bars
from cloudgan.schema.ecal_unit import EcalUnit


def demo(
    *,
    data: str | None = None,
    unit: EcalUnit | None = None,
    run: str = "runs/demo",
    showers: int = api.SHOWERS,
    max_steps: int = api.MAX_STEPS,
    max_seconds: float = api.MAX_SECONDS,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Simulates showers, trains a GAN, validates and prices it, and writes a report; needs no account.

    Takes at most five minutes on two cores. Rerun the command to resume.

    Args:
        data: Your own showers instead of simulated ones.
        unit: Unit of ECAL in files of --data that state none, where several fit.
        run: Folder of the run; the report is report.html in it.
        showers: Number of showers to simulate; a fifth is held out.
        max_steps: Training stops after this many steps ...
        max_seconds: ... or after this many seconds, whichever comes first.
        seed: Of every random number.
        json: Print the result as JSON.
    """
    with progress_bars(as_json=json) as progress:
        result = api.demo(
            data=data,
            unit=unit,
            run=run,
            showers=showers,
            max_steps=max_steps,
            max_seconds=max_seconds,
            seed=seed,
            progress=progress,
        )
    emit(result.result(), as_json=json)
