"""Settings of the environment that are known to ruin a run, told before TensorFlow is imported.

What somebody set stays as it is: a ratio of speeds is no reason to compute other bits than were
asked for. Only what would end the process is refused. Factors are measured (docs/performance.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import has_bfloat16

if TYPE_CHECKING:
    from cloudgan.training.candidates import Machine

HALVES = frozenset({"bfloat16", "mixed"})
_WITH_AVX512 = ("AVX512", "AVX10", "DEFAULT", "ALL")


def refuse_traps(precision: str, machine: Machine) -> None:
    """Refuses what would end the process without a word.

    Raises:
        ConfigError: bfloat16, with oneDNN limited to instructions that it cannot use for it.
    """
    limit = settings.onednn_instructions()
    if machine.gpus or precision not in HALVES or "avx512f" not in machine.features:
        return
    if limit and not limit.upper().startswith(_WITH_AVX512):
        raise ConfigError(
            f"--precision={precision} with ONEDNN_MAX_CPU_ISA={limit}: oneDNN ends the process at"
            " the first product. Unset ONEDNN_MAX_CPU_ISA, or use --precision=float32"
        )


def told_traps(precision: str, machine: Machine) -> tuple[str, ...]:
    """Returns a sentence for each setting that makes this run many times slower."""
    if machine.gpus:
        return ()
    found = []
    if not settings.is_on("TF_ENABLE_ONEDNN_OPTS"):
        found.append(
            "TF_ENABLE_ONEDNN_OPTS=0 is set: a step takes two to three times as long, single"
            " convolutions up to 45 times; unset it, unless you want the numbers of Eigen"
        )
    if "tf_xla_cpu_global_jit" in (settings.variable("TF_XLA_FLAGS") or ""):
        found.append(
            "TF_XLA_FLAGS asks for XLA on this CPU: a step took 16 times as long with it; unset it"
        )
    if precision in HALVES and not settings.has_tpu() and not has_bfloat16(machine.features):
        found.append(
            f"--precision={precision}: this CPU tells of no instructions for bfloat16"
            " (avx512_bf16 or amx_bf16), "
            + (
                "so float32 is used"
                if precision == "mixed"
                else "so a step is slower than in float32, 6 to 16 times where there is AVX2 only,"
                " and rounds more: sums inside of convolutions are bfloat16 too"
            )
        )
    return tuple(found)
