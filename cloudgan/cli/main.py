"""The program `cloudgan`: which commands there are."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from cloudgan import __version__
from cloudgan.cli.bench import BENCH
from cloudgan.cli.parsing import Program
from cloudgan.core import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = Program(
    name="cloudgan",
    summary="Trains calorimeter GANs, tells what every epoch costs, and checks the physics.",
    version=__version__,
    commands={
        "demo": "cloudgan.cli.demo:demo",
        "simulate": "cloudgan.cli.simulate:simulate",
        "convert": "cloudgan.cli.convert:convert",
        "train": "cloudgan.cli.train:train",
        "generate": "cloudgan.cli.generate:generate",
        "validate": "cloudgan.cli.validate:validate",
        "bench": BENCH,
        "cost": "cloudgan.cli.cost:cost",
        "offers": "cloudgan.cli.offers:offers",
        "check": "cloudgan.cli.check:check",
        "compare": "cloudgan.cli.compare:compare",
        "prices": "cloudgan.cli.prices:prices",
        "plan": "cloudgan.cli.plan:plan",
        "deploy": "cloudgan.cli.deploy:deploy",
        "image": "cloudgan.cli.image:image",
        "status": "cloudgan.cli.status:status",
        "logs": "cloudgan.cli.logs:logs",
        "cancel": "cloudgan.cli.cancel:cancel",
        "down": "cloudgan.cli.down:down",
        "doctor": "cloudgan.cli.doctor:doctor",
        "drill": "cloudgan.cli.drill:drill",
        "adopt": "cloudgan.cli.adopt:adopt",
        "setup": "cloudgan.cli.setup:setup",
        "worker": "cloudgan.cli.worker:worker",
        "schema": "cloudgan.cli.schema:schema",
    },
)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs the command that `argv`, or else the command line, asks for."""
    settings.quiet_tensorflow()
    PROGRAM.run(sys.argv[1:] if argv is None else argv)
