"""`cloudgan generate`: showers from a trained generator."""

from __future__ import annotations

from cloudgan.api import showers as api
from cloudgan.cli.options.values import parse_range, parse_step
from cloudgan.cli.views.output import print_result, progress_bars


def generate(
    run: str,
    output: str,
    *,
    showers: int = 1000,
    energy: str | None = None,
    theta: str | None = None,
    extrapolate: bool = False,
    step: str | None = None,
    cell: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Generates showers with a trained run into HDF5 (ECAL in GeV*50), or their hits into Parquet.

    Memory does not grow with the number of showers; an interrupted command leaves no file. A grid that
    trained a ring gives samples in a NumPy archive (.npz).

    Args:
        run: Folder of the run.
        output: File to write, such as generated.h5 or, for the hits, generated.parquet.
        showers: Number of showers.
        energy: Range of the primary energy in GeV, flat. Default: the trained range.
        theta: Range of the polar angle in degrees, flat. Default: the trained range.
        extrapolate: Accept ranges beyond the trained one; the file states the trained range.
        step: Checkpoint: the number of its step (0 is untrained), or best, which needs
            --validate-every. Default: the newest.
        cell: Of a grid (`cloudgan evolve`): mixture of the best cell and its neighbours, best (its
            own generator), ensemble (chosen by `evolve --ensemble`), or ROW,COLUMN. Default: mixture.
        seed: The same seed gives the same showers.
        overwrite: Replace an existing file.
        json: Print the result as JSON.
    """
    with progress_bars(as_json=json) as progress:
        file = api.generate(
            run,
            output,
            showers=showers,
            energy_gev=parse_range("energy", energy) if energy else None,
            theta_deg=parse_range("theta", theta) if theta else None,
            extrapolate=extrapolate,
            step=parse_step(step),
            cell=cell,
            seed=seed,
            overwrite=overwrite,
            progress=progress,
        )
    print_result({"file": file.path, file.content: file.showers} | file.facts, as_json=json)
