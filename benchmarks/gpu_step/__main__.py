"""Times the training step under JAX: `python -m benchmarks.gpu_step --help`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import CloudganError
from cloudgan.schema.presets import find_preset

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.gpu_step.report import Report
    from benchmarks.gpu_step.sweep import SweepRequest

BATCHES = "64,128,256,512,1024"
EPILOG = """\
It needs JAX, built for the device, and what `make gpu-wheels` fetches into build/gpu-wheels: Keras
and seven small packages, and no TensorFlow. Where nothing can be downloaded, carry that folder:
  python3 -m pip install --no-index --no-deps --target site build/gpu-wheels/*.whl
  PYTHONPATH=site python3 -m benchmarks.gpu_step --json=gpu.json --markdown=gpu.md
Exit code 2: an argument is wrong, or something is not installed; nothing was run."""


def main() -> int:
    """Runs; returns the exit code."""
    given = _parser().parse_args()
    os.environ["KERAS_BACKEND"] = "jax"  # noqa: TID251 - Keras reads it once, when it is imported
    try:
        from benchmarks.gpu_step import sweep

        asked = _request(given)
    except (ImportError, CloudganError, ValueError) as error:
        print(f"{error}\n\n{EPILOG}", file=sys.stderr)
        return 2
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began:5.0f} s] {line}", file=sys.stderr, flush=True)

    report = _begun(given, say)
    sweep.Sweep(asked, report, say).run(lambda: _save(report, given))
    print(report.markdown())
    return 0


def _request(given: argparse.Namespace) -> SweepRequest:
    """Returns what to time, every name checked."""
    from benchmarks.gpu_step.conv_impls import find_conv_impl
    from benchmarks.gpu_step.programs import PRECISIONS
    from benchmarks.gpu_step.sweep import SweepRequest

    for name in given.conv_impls:
        find_conv_impl(name)
    for name in given.precisions:
        if name not in PRECISIONS:
            known = ", ".join(PRECISIONS)
            raise ValueError(f"--precisions has {name!r}; there are {known}")
    return SweepRequest(
        find_preset(given.preset),
        given.conv_impls,
        given.precisions,
        given.batch,
        given.part_batch,
        given.rounds,
        given.turn_seconds,
        given.minutes,
        given.compile_threads,
    )


def _begun(given: argparse.Namespace, say: Callable[[str], None]) -> Report:
    """Measures the device's limits and returns a report without rows."""
    import jax
    import jaxlib
    import keras

    from benchmarks.gpu_step.ceilings import measure_ceilings
    from benchmarks.gpu_step.prices import spot_rows
    from benchmarks.gpu_step.report import Report

    device = jax.devices()[0]
    say(f"{device.device_kind}: measuring its limits")
    about: dict[str, Any] = {
        "device": device.device_kind,
        "preset": given.preset,
        "rounds": given.rounds,
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "platform version": device.client.platform_version.replace("\n", " "),
        "keras": keras.__version__,
        "python": platform.python_version(),
    }
    if given.accelerator:
        about["priced as"] = given.accelerator
    ceilings = measure_ceilings(is_large=device.platform != "cpu")
    return Report(about, ceilings, spot_rows(given.accelerator or device.device_kind))


def _save(report: Report, given: argparse.Namespace) -> None:
    """Writes the files after each batch size, so that a run that is killed leaves what it has."""
    if given.json:
        given.json.write_text(json.dumps(report.document(), indent=1) + "\n", encoding="utf-8")
    if given.markdown:
        given.markdown.write_text(report.markdown(), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.gpu_step",
        description="Times the training step and its parts under JAX on the first device.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--preset", default="paper", help="paper (default), mini, fixed25 or smoke")
    add("--batch", type=_numbers, default=BATCHES, help=f"showers a step; default {BATCHES}")
    add("--part_batch", type=_numbers, default="128", help="showers of passes timed alone; or none")
    forms = "published, phases, blocked:2x2x2 and its like, fft; default the first two"
    add("--conv-impls", type=_words, default="published,phases", help=forms)
    kinds = "float32,tf32,bfloat16"
    add("--precisions", type=_words, default=kinds, help=f"default {kinds}")
    add("--rounds", type=int, default=7, help="turns of each program; default 7")
    add("--turn_seconds", type=float, default=0.2, help="least length of a turn; default 0.2")
    add("--minutes", type=float, default=9, help="nothing is begun later than this; default 9")
    add("--compile_threads", type=int, default=4, help="programs compiled at once; default 4")
    add("--accelerator", help="as the catalogue of prices calls the device; default: as found")
    add("--json", type=Path, help="file for everything")
    add("--markdown", type=Path, help="file for the tables, which are printed too")
    return parser


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> tuple[int, ...]:
    return () if text == "none" else tuple(int(number) for number in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
