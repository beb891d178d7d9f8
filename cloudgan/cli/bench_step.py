"""`cloudgan bench step`: a training step, its variants in turns, beside the machine's limit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.bench.variant import make_variant, parse_against
from cloudgan.cli.output import show_json, shown_after, shown_progress
from cloudgan.cli.report_file import check_report, write_report_file
from cloudgan.core.config import Kernels, Precision  # noqa: TC001  flags are read by them
from cloudgan.core.errors import ConfigError, Interrupted
from cloudgan.core.whole_file import write_whole

if TYPE_CHECKING:
    from cloudgan.bench.step import StepResult


def step(
    *,
    against: str = "published",
    preset: str = "paper",
    batch: int = 16,
    kernels: Kernels = "auto",
    precision: Precision = "float32",
    replicas: int = 1,
    threads: int | None = None,
    rounds: int = 5,
    roofline: str | None = None,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Measures the training step that `train` runs, against another form of it, in one run.

    Both are kept alive in processes of their own and take turns, so that other work on the machine
    slows both. The ratio is of neighbours in time. Each variant's speed is told beside the limit of
    direct convolution: its counted arithmetic at the speed of matrix products, measured in the same
    rounds. The showers are the parametric source's.

    Args:
        against: published, fast, or none; what else differs stands behind a colon, such as
            fast:precision=bfloat16 or auto:TF_ENABLE_ONEDNN_OPTS=0. The same form gives a ratio near 1.
        preset: paper, mini, fixed25 or smoke.
        batch: Showers per replica and step.
        kernels: What is measured.
        precision: Of the arithmetic, of both unless --against says another.
        replicas: Replicas in one process, of both likewise.
        threads: Threads per process. Default: all cores.
        rounds: Turns of each; one before them warms up.
        roofline: Time each convolution alone and draw all under the machine's roof: FILE.png.
        report: Write a page with all of it, .html, .md or .csv.
        json: Print the result as JSON.
    """
    training = {
        "batch_per_replica": batch,
        "precision": precision,
        "replicas": replicas,
        "threads": threads,
    }
    own = make_variant(kernels, preset, training, {})
    other = None if against == "none" else parse_against(against, own, preset, training)
    _check(rounds, roofline)
    check_report(report)
    from cloudgan.bench.step import measure_step

    with shown_progress(as_json=json) as progress:
        result = measure_step(own, other, rounds=rounds, layers=bool(roofline), progress=progress)
    _tell(result, roofline=roofline, report=report, as_json=json)


def _check(rounds: int, roofline: str | None) -> None:
    if rounds < 1:
        raise ConfigError(f"--rounds={rounds}: at least one")
    if roofline is None:
        return
    path = Path(roofline)
    if path.suffix.lower() != ".png" or path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"--roofline={roofline}: name a .png file in a folder that is there")


def _tell(result: StepResult, *, roofline: str | None, report: str | None, as_json: bool) -> None:
    from cloudgan.bench.step_report import layer_table, step_json, step_lines, step_page, step_table
    from cloudgan.cli.table_view import show_table

    if as_json:
        show_json(step_json(result))
    else:
        show_table(step_table(result))
        if result.layers:
            show_table(layer_table(result))
        print("\n".join(step_lines(result)))
    if report:
        write_report_file(step_page(result), Path(report))
    if roofline and not result.interrupted:
        _draw(result, Path(roofline))
    if result.interrupted:
        raise shown_after(Interrupted("stopped before the last round"), as_json=as_json)


def _draw(result: StepResult, path: Path) -> None:
    from cloudgan.bench.roofline import draw_roofline
    from cloudgan.reports.drawing import Drawing

    with Drawing(height_inches=6.0) as drawing:
        draw_roofline(result, drawing)
        write_whole(path, drawing.png())
