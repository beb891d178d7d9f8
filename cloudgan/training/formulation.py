"""Makes the form of the layers that was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from cloudgan.core.config import RunConfig
from cloudgan.core.hardware import this_machine
from cloudgan.models.formulation import choose_formulation
from cloudgan.models.kernels import PUBLISHED, PhaseKernels
from cloudgan.training.strategy import device_kind

if TYPE_CHECKING:
    from cloudgan.core.presets import Preset
    from cloudgan.models.kernels import Kernels


def kernels_for_generating(preset: Preset) -> Kernels:
    """Makes the stages of a generator that only generates, in float32 on what is here."""
    config = RunConfig(model=preset)
    return make_kernels(choose_formulation(config, device_kind()))


def make_kernels(formulation: str) -> Kernels:
    """Makes the stages of a formulation."""
    if formulation == "transforms":
        # Its compiler is loaded only where it is used: an accelerator needs none.
        from cloudgan.native.team import Team  # noqa: PLC0415
        from cloudgan.training.fused_stage import FusedKernels  # noqa: PLC0415

        asked = tf.config.threading.get_intra_op_parallelism_threads()
        return FusedKernels(Team(asked or this_machine().cores))
    return PhaseKernels() if formulation == "phases" else PUBLISHED
