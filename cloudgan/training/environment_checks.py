"""Compute options and environment checks that must be settled before TensorFlow is imported.

A resumed run takes the options of its checkpoint, so that it continues bit for bit; flags and
environment variables take precedence. Variables that the user set are never changed: only those
that would abort the process are refused. The factors are measured (docs/performance.md).
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import cpu_features, has_bfloat16, nvidia_gpus
from cloudgan.core.progress import Progress
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import DEFAULT_INSTRUCTIONS, Numerics

INSTRUCTIONS_VARIABLE = "ONEDNN_MAX_CPU_ISA"
XLA_VARIABLE = "TF_XLA_FLAGS"
XLA_FLAG = "--tf_xla_auto_jit=2"
"""Compiles GPU clusters with XLA; on a CPU it has no effect without another flag."""
TWO_BYTE_PRECISIONS = frozenset({"bfloat16", "mixed"})
_WITH_AVX512 = ("AVX512", "AVX10", "DEFAULT", "ALL")


class ComputeOptions(NamedTuple):
    """Choices between implementations of the same mathematics.

    Attributes:
        conv_impl: Convolution implementation of the checkpoint; None: no checkpoint.
        threads: Intra-op threads; None: the cores of this process.
        instructions: Newest instruction set that oneDNN may use.
        xla: Whether XLA compiles what runs on a GPU.
    """

    conv_impl: str | None = None
    threads: int | None = None
    instructions: str = DEFAULT_INSTRUCTIONS
    xla: bool = False

    def environment(self) -> dict[str, str]:
        """Variables that TensorFlow reads on import."""
        found = {}
        if self.instructions != DEFAULT_INSTRUCTIONS:
            found[INSTRUCTIONS_VARIABLE] = self.instructions
        if self.xla:
            found[XLA_VARIABLE] = XLA_FLAG
        return found


class Machine(NamedTuple):
    """Hardware that the checks depend on: CPU features as Linux names them, and GPUs."""

    features: frozenset[str]
    gpus: int


def this_process() -> Machine:
    """Returns the hardware that this process may use."""
    hidden = settings.variable("CUDA_VISIBLE_DEVICES") == "-1"
    return Machine(cpu_features(), 0 if hidden else len(nvidia_gpus()))


def prepare_environment(
    config: RunConfig, saved: Numerics | None, progress: Progress
) -> ComputeOptions:
    """Checks the environment and sets the variables that TensorFlow reads on import.

    Args:
        config: The run.
        saved: Numerics of the newest checkpoint; None for a new run.
        progress: Shows the warnings.

    Raises:
        ConfigError: A variable would abort the process.
    """
    machine, precision = this_process(), config.training.precision
    refuse_aborting_settings(precision, machine)
    for warning in environment_warnings(precision, machine):
        progress.say(warning)
    options = compute_options(config, saved)
    if "tensorflow" not in sys.modules:
        settings.set_for_tensorflow(options.environment())
    return options


def compute_options(config: RunConfig, saved: Numerics | None) -> ComputeOptions:
    """Returns the options of the checkpoint, overridden by flags and environment variables."""
    options = ComputeOptions()
    if saved:
        options = ComputeOptions(saved.conv_impl, saved.threads, saved.instructions, saved.xla)
    if config.training.threads:
        options = options._replace(threads=config.training.threads)
    if limit := settings.onednn_instructions():
        options = options._replace(instructions=limit)
    if flags := settings.variable(XLA_VARIABLE):
        options = options._replace(xla=XLA_FLAG in flags)
    return options


def refuse_aborting_settings(precision: str, machine: Machine) -> None:
    """Refuses settings that abort the process without a message.

    Raises:
        ConfigError: bfloat16, with oneDNN limited to instructions that cannot compute it.
    """
    limit = settings.onednn_instructions()
    if machine.gpus or precision not in TWO_BYTE_PRECISIONS or "avx512f" not in machine.features:
        return
    if limit and not limit.upper().startswith(_WITH_AVX512):
        raise ConfigError(
            f"--precision={precision} with ONEDNN_MAX_CPU_ISA={limit}: oneDNN aborts the process at"
            " the first product. Unset ONEDNN_MAX_CPU_ISA, or use --precision=float32"
        )


def environment_warnings(precision: str, machine: Machine) -> tuple[str, ...]:
    """Returns one sentence for each setting that makes training many times slower."""
    if machine.gpus:
        return ()
    found = []
    if not settings.is_on("TF_ENABLE_ONEDNN_OPTS"):
        found.append(
            "TF_ENABLE_ONEDNN_OPTS=0 is set: a step takes two to three times as long, single"
            " convolutions up to 45 times; unset it unless you need the numbers of Eigen"
        )
    if "tf_xla_cpu_global_jit" in (settings.variable(XLA_VARIABLE) or ""):
        found.append(
            "TF_XLA_FLAGS enables XLA on this CPU, which made a step 16 times as long; unset it"
        )
    if (
        precision in TWO_BYTE_PRECISIONS
        and not settings.has_tpu()
        and not has_bfloat16(machine.features)
    ):
        found.append(
            f"--precision={precision}: this CPU reports no bfloat16 instructions"
            " (avx512_bf16 or amx_bf16), "
            + (
                "so float32 is used"
                if precision == "mixed"
                else "so a step is slower than in float32, 6 to 16 times with AVX2 only, and"
                " rounds more: convolutions accumulate in bfloat16 too"
            )
        )
    return tuple(found)
