"""Which form the layers take: asked by `--kernels`, found by what is here, kept by a checkpoint."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, get_args

from cloudgan.core.tuning import Formulation
from cloudgan.models.architectures import ARCHITECTURES

if TYPE_CHECKING:
    from cloudgan.core.config import RunConfig

FORMULATIONS: tuple[str, ...] = get_args(Formulation)
WORTH_TAPS = 64


def choose_formulation(config: RunConfig, device: str, found: str | None = None) -> str:
    """Returns one of FORMULATIONS for a kind of device, as `device_kind` names it.

    `found` is what a checkpoint says, or what was the fastest here; a flag is stronger.

    `transforms` is generated code for the CPU, in float32, and needs llvmlite; `phases` runs
    everywhere. `auto` transforms where a kernel has WORTH_TAPS or more: with those of mini and smoke
    the step took as long as without (docs/performance.md).
    """
    asked = config.training.kernels
    if asked in {"published", "phases"}:
        return asked
    able = device == "CPU" and config.training.precision == "float32" and find_spec("llvmlite")
    if asked == "auto" and found in FORMULATIONS and (able or found != "transforms"):
        return found
    table = ARCHITECTURES[config.model.networks]
    blocks = (*table.generator.blocks, *table.discriminator.blocks)
    most_taps = max(math.prod(block.kernel) for block in blocks)
    worth = asked == "fast" or most_taps >= WORTH_TAPS
    return "transforms" if able and worth else "phases"
