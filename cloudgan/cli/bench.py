"""`cloudgan bench`: which measurements there are, each a command of its own."""

from __future__ import annotations

from cloudgan import __version__
from cloudgan.cli.parsing import Program

BENCH = Program(
    name="cloudgan bench",
    summary="Measures what is here: variants in turn within one run, medians with their spread.",
    version=__version__,
    commands={
        "step": "cloudgan.cli.bench_step:step",
        "input": "cloudgan.cli.bench_input:input_",
        "generate": "cloudgan.cli.bench_generate:generate",
        "scaling": "cloudgan.cli.bench_scaling:scaling",
    },
)
