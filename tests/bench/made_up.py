"""Made-up results of measurements."""

from __future__ import annotations

from cloudgan.bench.step import MeasuredVariant, Round, StepResult, make_variant
from cloudgan.models.convolutions import convolutions

BUILT = {
    "conv_impl": "fast",
    "device": "CPU",
    "threads": 2,
    "replicas": 1,
    "global_batch": 16,
    "steps": 1,
    "first_loss": 150.0,
}


def measured(name, seconds, *, gflops=100.0, preset="paper", **built):
    variant = make_variant(name, preset, {"batch_per_replica": 16}, {})
    rounds = [Round(one, 2 * one, gflops) for one in seconds]
    return MeasuredVariant(variant, BUILT | built, rounds)


def step_result(own=(5.0, 4.0), against=(12.0, 12.0), *, layers=False, **others):
    other = measured("published", against, conv_impl="published") if against else None
    mine = measured("auto", own)
    timed = ()
    if layers:
        seconds = {"forward": 0.5, "input_gradient": 1.0, "weight_gradient": 2.0}
        one = seconds | {"all_passes": 3.0, "matmul_gflops": 100.0}
        timed = tuple(one for _ in convolutions(mine.preset))
    return StepResult(mine, other, timed, 10.0 if layers else None, **others)
