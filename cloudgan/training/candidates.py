"""Which ways to compute are worth trying on a machine, and which of those measured is the fastest.

Never tried, because it is known: oneDNN switched off (a step of mini 2 to 3 times slower, single
convolutions 45 times), XLA on a CPU (16 times), and on processors with AVX-512 older instructions
together with bfloat16, for which oneDNN ends the process.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.core.tuning import Choice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cloudgan.core.tuning import Trial

LEAST_GAIN = 0.03
"""What is not faster by this share is not chosen: it may be chance."""

_LEAST_ROUNDS = 2


@dataclass(frozen=True)
class Machine:
    """What of a machine decides which ways there are.

    Attributes:
        cores: Threads of execution that this process may use.
        physical_cores: Without second threads of a core; None: unknown.
        features: Instruction sets as Linux names them.
        gpus: How many there are.
    """

    cores: int
    physical_cores: int | None
    features: frozenset[str]
    gpus: int


def candidates(
    machine: Machine,
    *,
    precision: str,
    replicas: int,
    asked: Mapping[str, Any],
    other_form: str | None = None,
) -> tuple[Choice, ...]:
    """Returns the ways to try, the default first; each of them leaves alone what was `asked`.

    Args:
        machine: Where.
        precision: Of the arithmetic, as asked for.
        replicas: That share the process.
        asked: Fields of a choice that are not free.
        other_form: Of phases and transforms, on a CPU, the one that is not usual; None where that
            cannot run.
    """
    if machine.gpus:
        changes = _on_gpus()
    else:
        changes = _on_cpus(machine, other_form, precision=precision, replicas=replicas)
    free = [change for change in changes if not set(change) & set(asked)]
    return tuple(Choice.model_validate({**asked, **change}) for change in free)


def _on_gpus() -> list[dict[str, Any]]:
    published = {"formulation": "published"}
    return [{}, published, {"xla": True}, published | {"xla": True}]


def _on_cpus(
    machine: Machine, other_form: str | None, *, precision: str, replicas: int
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{}, {"formulation": "published"}]
    forms: list[dict[str, Any]] = [{}]
    if other_form:
        forms.append({"formulation": other_form})
        found += forms[1:]
    # Eight lanes fill with 6 or 8 channels, where sixteen stay half empty: 1.28 times as fast on
    # Zen 4, which computes 256 bits at once. Where a core has real 512 it may be slower: so tried.
    if "avx512f" in machine.features and precision == "float32":
        found += [form | {"instructions": "AVX2"} for form in forms]
    if replicas == 1 and machine.cores > 1:
        found.append({"inter_threads": 1})
        physical = machine.physical_cores or machine.cores
        if physical < machine.cores:
            found.append({"threads": physical})
    return found


def fastest(trials: Sequence[Trial]) -> Trial | None:
    """Returns the fastest, the default where no other is faster for sure; None: not measured.

    Machines do other things meanwhile, so a candidate is held against the default round by round.
    """
    default = trials[0]
    if len(default.seconds) < _LEAST_ROUNDS:
        return None
    better = [trial for trial in trials[1:] if ratio(trial, default) <= 1 - LEAST_GAIN]
    return min(better, key=lambda trial: ratio(trial, default), default=default)


def ratio(trial: Trial, default: Trial) -> float:
    """Median over the rounds of its time over the default's; infinite where it was not measured."""
    pairs = list(zip(trial.seconds, default.seconds, strict=False))
    if trial.ended or len(pairs) < _LEAST_ROUNDS:
        return float("inf")
    return statistics.median(own / other for own, other in pairs)
