"""Decides how a process computes, before TensorFlow is imported.

What a flag or the environment says stands. Then what the checkpoint says, so that a run goes on to
the same bits. Then what was found on this machine before. Then, where the run is long enough for it,
what is found now. Else the defaults. The workers of one run must not differ, so a process that has
others beside it never looks for itself: it takes what whoever started it handed on, or the defaults.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pydantic import ValidationError

from cloudgan.core import settings, tuning
from cloudgan.core.clock import utc_now
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.hardware import cpu_features, nvidia_gpus, physical_cores, this_machine
from cloudgan.core.provenance import versions
from cloudgan.core.tuning import KERNELS, Choice, Finding, Key
from cloudgan.models.formulation import choose_formulation
from cloudgan.training.candidates import Machine, candidates, fastest, ratio
from cloudgan.training.race import Probe, race
from cloudgan.training.traps import refuse_traps, told_traps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cloudgan.core.config import RunConfig
    from cloudgan.core.progress import Progress
    from cloudgan.core.record import Numerics
    from cloudgan.core.tuning import Trial
    from cloudgan.training.job import Job

MOST_SECONDS = 60.0
LEAST_SECONDS = 20.0
SHARE = 0.03
"""Of the time that a run is expected to take, the most that goes into finding out."""

# Enough to tell the ways apart, and no longer than it must be.
_MOST_BATCH = {"paper": 1, "fixed25": 4, "mini": 16, "smoke": 32}
_MOST_BATCH_ON_GPU = 64


class Race(Protocol):
    """Measures choices against each other, as `cloudgan.training.race.race` does."""

    def __call__(
        self, choices: Sequence[Choice], probe: Probe, progress: Progress, /
    ) -> tuple[Trial, ...]:
        """Returns a trial for each choice."""


class Decided(NamedTuple):
    """How to compute, and a sentence on how that was found; empty: nothing was measured."""

    choice: Choice
    told: str = ""


def look_at_machine() -> tuple[Machine, tuple[str, ...]]:
    """Returns what decides which ways there are, and the GPUs' names."""
    gpus = () if settings.variable("CUDA_VISIBLE_DEVICES") == "-1" else nvidia_gpus()
    cores = this_machine().cores
    machine = Machine(cores, physical_cores(), cpu_features(), len(gpus))
    return machine, tuple(gpu.name for gpu in gpus)


class Tuner:
    """Looks at this machine once, and decides for one process."""

    def __init__(
        self, progress: Progress, *, data_folder: Path | None = None, run_race: Race = race
    ) -> None:
        """Prepares.

        Args:
            progress: Shows what is tried, and is told what was found.
            data_folder: Where findings are kept; default the user's.
            run_race: Measures.
        """
        self._progress, self._run_race = progress, run_race
        self._folder = data_folder or settings.data_folder()
        self._machine, self._gpus = look_at_machine()

    def decide(self, job: Job) -> Decided:
        """Decides, and sets what TensorFlow reads when it is imported.

        Raises:
            ConfigError: What was asked for would end the process.
        """
        precision = job.config.training.precision
        refuse_traps(precision, self._machine)
        for sentence in told_traps(precision, self._machine):
            self._progress.say(sentence)
        decided = self._found(job)
        choice = Choice.model_validate(decided.choice.model_dump() | asked_of(job.config))
        if "tensorflow" not in sys.modules:
            settings.set_for_tensorflow(choice.environment())
        if decided.told:
            self._progress.say(decided.told)
        return Decided(choice, decided.told)

    def remembered(self, job: Job) -> Finding | None:
        """Returns what was found on this machine for such a run; None where nothing was."""
        if job.saved or job.config.training.tune == "off" or settings.has_tpu():
            return None
        finding, problem = tuning.read(self._folder, self.key(job))
        if problem:
            self._progress.say(problem)
        return finding

    def _found(self, job: Job) -> Decided:
        if job.saved:
            return Decided(of_checkpoint(job.saved))
        if job.config.training.tune == "off" or settings.has_tpu():
            return Decided(Choice())
        if not job.is_alone:
            return _handed()
        if finding := self.remembered(job):
            how = f"(cached, {finding.found[:10]})"
            return Decided(finding.choice, f"tuned: {finding.choice.describe()} {how}")
        limit = min(MOST_SECONDS, SHARE * job.expected_seconds(self._machine))
        is_worth = limit >= LEAST_SECONDS and "tensorflow" not in sys.modules
        return self._find(job, limit) if is_worth else Decided(Choice())

    def _find(self, job: Job, limit_seconds: float) -> Decided:
        """Measures, and keeps what was found."""
        key = self.key(job)
        choices = candidates(
            self._machine,
            precision=key.precision,
            replicas=key.replicas,
            asked=key.asked,
            other_form=other_form(job.config),
        )
        most = _MOST_BATCH_ON_GPU if self._machine.gpus else _MOST_BATCH[key.networks]
        probe = Probe(
            choice=choices[0],
            preset=job.config.model,
            precision=key.precision,
            kernels=job.config.training.kernels,
            batch=min(job.batch_per_replica, most),
            most_seconds=limit_seconds,
        )
        began = time.perf_counter()
        trials = self._run_race(choices, probe, self._progress)
        took = time.perf_counter() - began
        best = fastest(trials)
        if best is None:
            why = trials[0].ended or "the time was too short"
            return Decided(Choice(), f"not tuned in {took:.0f} s ({why}): the defaults are used")
        finding = Finding(
            key=key,
            found=utc_now(),
            batch=probe.batch,
            took_seconds=round(took, 1),
            choice=best.choice,
            trials=trials,
        )
        return Decided(best.choice, _told(finding, best) + _kept(self._folder, finding))

    def key(self, job: Job) -> Key:
        """Returns what a finding for `job` would hold for."""
        return Key(
            processor=this_machine().processor,
            cores=self._machine.cores,
            accelerators=self._gpus,
            versions=versions(),
            networks=job.config.model.networks,
            image_shape=job.config.model.image_shape,
            precision=job.config.training.precision,
            batch_class=tuning.batch_class(job.batch_per_replica),
            replicas=job.replicas,
            asked=asked_of(job.config),
        )


def handed_on(finding: Finding | None) -> str | None:
    """Returns what workers on one machine are told of a finding: not its threads, which they share."""
    if finding is None:
        return None
    return finding.choice.model_copy(
        update={"threads": None, "inter_threads": None}
    ).model_dump_json()


def _handed() -> Decided:
    """What whoever started this worker and the others says; the defaults where it says nothing."""
    handed = settings.handed_choice()
    if handed is None:
        return Decided(Choice())
    try:
        choice = Choice.model_validate_json(handed)
    except ValidationError as error:
        raise ConfigError(
            "CLOUDGAN_TUNED is set, which `cloudgan train` does for its own workers, and says"
            " nothing that we know; unset it"
        ) from error
    return Decided(choice, f"tuned: {choice.describe()} (cached, for all workers)")


def asked_of(config: RunConfig) -> dict[str, Any]:
    """Returns the fields of a choice that flags or the environment decide."""
    asked: dict[str, Any] = {}
    if (kernels := config.training.kernels) != "auto":
        asked["formulation"] = None if kernels == "fast" else kernels
    if config.training.threads:
        asked |= {"threads": config.training.threads, "inter_threads": None}
    if limit := settings.onednn_instructions():
        asked["instructions"] = limit
    if flags := settings.variable(tuning.XLA_VARIABLE):
        asked["xla"] = tuning.XLA_FLAG in flags
    return asked


def other_form(config: RunConfig) -> str | None:
    """Returns the form of the layers that is not usual on a CPU, where it can run."""
    fast = config.training.model_copy(update={"kernels": "fast"})
    able = choose_formulation(config.model_copy(update={"training": fast}), "CPU") == "transforms"
    usual = choose_formulation(config, "CPU")
    return {"transforms": "phases", "phases": "transforms"}.get(usual) if able else None


def of_checkpoint(saved: Numerics) -> Choice:
    """Returns what a checkpoint was computed with."""
    known = saved.model_dump(include=set(Choice.model_fields))
    if known["formulation"] not in KERNELS:
        known["formulation"] = None  # of another version: what is usual now, and that is told
    return Choice.model_validate(known)


def _told(finding: Finding, best: Trial) -> str:
    default, others = finding.trials[0], len(finding.trials) - 1
    if best == default:
        gain = f"none of {others} others is faster"
    else:
        gain = f"{1 / ratio(best, default):.2f} times as fast as the default, of {others + 1} ways"
    return f"tuned: {best.choice.describe()}: {gain}, tried in {finding.took_seconds:.0f} s"


def _kept(folder: Path, finding: Finding) -> str:
    try:
        tuning.write(folder, finding)
    except DataError as error:
        return f" (not kept: {error})"
    return f" (kept in {tuning.path_of(folder, finding.key)})"
