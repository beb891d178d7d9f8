"""The published scaling of 3DGAN on an IBM POWER8 cluster, and the part of it that did not scale.

Source: "Evaluating POWER Architecture for Distributed Training of Generative Adversarial Networks",
LNCS 11887 (2019), doi 10.1007/978-3-030-34356-9_32. On 12 P100 the training with its evaluation took
2 h 14 min instead of 20 h 16 min; training alone, without the first epoch, scaled with 98.9 %.
"""

from __future__ import annotations

from pydantic import Field

from cloudgan.core.document import Document

SOURCE = "doi 10.1007/978-3-030-34356-9_32"
GPUS = 12
_ONE_GPU_MINUTES = 20 * 60 + 16
_ALL_GPUS_MINUTES = 2 * 60 + 14
_TRAINING_EFFICIENCY = 0.989


class Power8(Document):
    """Durations on one and on all GPUs, in minutes, and what follows from them."""

    source: str = SOURCE
    gpus: int = Field(GPUS, gt=0)
    one_gpu_minutes: float = Field(_ONE_GPU_MINUTES, gt=0, description="published")
    all_gpus_minutes: float = Field(_ALL_GPUS_MINUTES, gt=0, description="published")
    training_efficiency: float = Field(_TRAINING_EFFICIENCY, gt=0, description="published")
    speed_up: float = Field(gt=0, description="end to end, from the published durations")
    efficiency: float = Field(gt=0, description="end to end")
    serial_minutes: float = Field(gt=0, description="on any number of GPUs: the evaluation")
    serial_share: float = Field(gt=0, description="of the duration on one GPU, as in Amdahl's law")
    shared_minutes: float = Field(gt=0, description="computed: all GPUs share the evaluation")
    shared_speed_up: float = Field(gt=0, description="computed")
    shared_efficiency: float = Field(gt=0, description="computed")


def replay_power8() -> Power8:
    """Returns the published durations, and those with an evaluation that all GPUs share.

    One GPU needs T1 = t + e: training t, evaluation e. On n GPUs the training takes t / (n eta) with the
    published efficiency eta = 0.989, and the evaluation e as before::

        Tn = t / (n eta) + e   =>   e = (Tn - T1 / (n eta)) / (1 - 1 / (n eta)) = 34.4 min
        shared: t / (n eta) + e / n = 102.4 min, a speed-up of 11.9 instead of 9.07

    The shared evaluation is taken to scale without loss. Amdahl's law (AFIPS 30 (1967) 483, doi
    10.1145/1465482.1465560) names e / T1 the serial share.
    """
    one, every, n = _ONE_GPU_MINUTES, _ALL_GPUS_MINUTES, GPUS
    gain = n * _TRAINING_EFFICIENCY
    serial = (every - one / gain) / (1 - 1 / gain)
    shared = (one - serial) / gain + serial / n
    return Power8(
        speed_up=one / every,
        efficiency=one / every / n,
        serial_minutes=serial,
        serial_share=serial / one,
        shared_minutes=shared,
        shared_speed_up=one / shared,
        shared_efficiency=one / shared / n,
    )
