"""Where a process trains: its place among the workers, its accelerators, the settings of its libraries.

All of it is settled before TensorFlow is imported; `run_workers` starts several workers on this machine. Imports neither NumPy nor TensorFlow: the agent of a
pod and the loop of a search use it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator

from cloudgan.core import settings
from cloudgan.core.children import RESUMES, SHARED, StopSignal, hold_port, number_of
from cloudgan.core.cuda_libraries import describe_libraries
from cloudgan.core.documents import parse_json, validated
from cloudgan.core.errors import CloudganError, ConfigError, counted, show
from cloudgan.core.hardware import cpu_features, has_bfloat16, nvidia_gpus, this_machine
from cloudgan.core.loopback_network import LoopbackNetwork
from cloudgan.core.progress import Progress
from cloudgan.core.settings import child_environment
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import DEFAULT_INSTRUCTIONS, Numerics

_MAX_PORT = 65_535
_VISIBLE = "CUDA_VISIBLE_DEVICES"
XLA_VARIABLE, XLA_FLAG = "TF_XLA_FLAGS", "--tf_xla_auto_jit=2"
"""Compiles GPU clusters with XLA; on a CPU it has no effect without another flag."""
_TWO_BYTE_PRECISIONS = frozenset({"bfloat16", "mixed"})
_WITH_AVX512 = ("AVX512", "AVX10", "DEFAULT", "ALL")


@dataclass(frozen=True)
class Cluster:
    """Position of this process among the workers, from TF_CONFIG.

    Attributes:
        workers: Addresses of all workers, the chief first.
        index: Of this worker.
        ordinary: Workers that TF_CONFIG does not list as chief.
    """

    workers: tuple[str, ...]
    index: int
    ordinary: int

    @property
    def is_chief(self) -> bool:
        """Whether this process writes record and checkpoints."""
        return self.index == 0


class _Peers(BaseModel):
    model_config = ConfigDict(strict=True)

    worker: list[str] = Field(min_length=1)
    chief: list[str] = Field(default=[], max_length=1)

    @field_validator("worker", "chief")
    @classmethod
    def _are_addresses(cls, addresses: list[str]) -> list[str]:
        for address in addresses:
            host, _, port = address.rpartition(":")
            is_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) <= _MAX_PORT
            if not (host and is_port and host.isprintable()):
                raise ValueError(f"{show(address)} is not an address such as host:2222")
        return addresses


class _Task(BaseModel):
    type: Literal["worker", "chief"]
    index: int = Field(ge=0)


class _TfConfig(BaseModel):
    cluster: _Peers
    task: _Task


def read_cluster(tf_config: str | None) -> Cluster | None:
    """Reads TF_CONFIG (https://www.tensorflow.org/guide/distributed_training, read 2026-11-21)."""
    if not tf_config:
        return None
    try:
        found = validated(
            _TfConfig, parse_json(tf_config, "TF_CONFIG", ConfigError), "TF_CONFIG", ConfigError
        )
    except ConfigError as error:
        raise ConfigError(
            f"{error}; expected a cluster and a task, such as"
            ' {"cluster": {"worker": ["host:2222"]}, "task": {"type": "worker", "index": 0}};'
            " unset it to train in this process alone"
        ) from error
    cluster, task = found.cluster, found.task
    addresses = (*cluster.chief, *cluster.worker)
    index = task.index + (len(cluster.chief) if task.type == "worker" else 0)
    if index >= len(cluster.chief if task.type == "chief" else addresses):
        raise ConfigError(
            f"TF_CONFIG makes this process worker {index} of {len(addresses)}; indices count from 0"
        )
    return Cluster(addresses, index, ordinary=len(cluster.worker))


def visible_gpus() -> list[str]:
    """Returns the GPUs that this process may use; as in CUDA a negative number ends the list."""
    asked = settings.variable(_VISIBLE)
    if asked is None:
        return [str(number) for number in range(len(nvidia_gpus()))]
    names = [name.strip() for name in asked.split(",") if name.strip()]
    hidden = next((i for i, name in enumerate(names) if name.startswith("-")), len(names))
    return names[:hidden]


def share_gpus(workers: int) -> list[dict[str, str]]:
    """Returns environment variables per worker that give each its own GPUs; empty without GPUs."""
    gpus = visible_gpus()
    if not gpus:
        return [{} for _ in range(workers)]
    if len(gpus) % workers:
        raise ConfigError(
            f"{workers} workers cannot share {len(gpus)} GPUs evenly; use a divisor as --workers,"
            f" --strategy=mirrored for one process with all GPUs, or {_VISIBLE} to select some"
        )
    each = len(gpus) // workers
    return [{_VISIBLE: ",".join(gpus[each * i : each * (i + 1)])} for i in range(workers)]


def refuse_missing_accelerators(found: int, library: str = "TensorFlow") -> None:
    """Refuses fewer accelerators than the plan of the worker pays for; `library`, the engine's, `found` so many."""
    planned = settings.planned_accelerators()
    if found >= planned:
        return
    there = nvidia_gpus()
    listed = f"{len(there)} x {there[0].name}" if there else "no GPU"
    if hidden := settings.variable(_VISIBLE):
        listed += f", with {_VISIBLE}={hidden}"
    raise ConfigError(
        f"the plan has {counted(planned, 'accelerator')} for this worker (CLOUDGAN_ACCELERATORS), and {library}"
        f" finds {found}; nothing was trained. nvidia-smi lists {listed}; {describe_libraries()}. Without"
        " a driver, the node or its device plugin is at fault: run `cloudgan check`. Without libraries,"
        " deploy without --image, or use an image with cloudgan[gpu] (`cloudgan image --kind=gpu`)"
    )


class ComputeOptions(NamedTuple):
    """Choices between implementations of the same mathematics.

    Attributes:
        conv_impl: Convolution implementation of the checkpoint; None: no checkpoint.
        threads: Intra-op threads.
    """

    conv_impl: str | None = None
    threads: int = 1


def prepare_environment(
    config: RunConfig, saved: Numerics | None, progress: Progress, *, processes: int
) -> ComputeOptions:
    """Checks the environment and sets the variables that TensorFlow reads on import.

    A resumed run takes the options of its checkpoint, `saved`, so that it continues bit for bit; flags and
    variables take precedence. Variables that the user set are never changed: only those that would
    abort the process are refused. `processes` share the cores of this machine.
    """
    precision, hidden = config.training.precision, settings.variable(_VISIBLE) == "-1"
    gpus = 0 if hidden else len(nvidia_gpus())
    for warning in check_environment(precision, cpu_features(), gpus):
        progress.say(warning)
    if saved and "tensorflow" not in sys.modules:
        found, limit = {}, saved.instructions
        if limit != DEFAULT_INSTRUCTIONS and not settings.onednn_instructions():
            found["ONEDNN_MAX_CPU_ISA"] = limit
        if saved.xla and not settings.variable(XLA_VARIABLE):
            found[XLA_VARIABLE] = XLA_FLAG
        settings.set_variables(found)
    threads = saved.threads if saved else max(1, this_machine().cores // processes)
    return ComputeOptions(saved.conv_impl if saved else None, config.training.threads or threads)


def check_environment(precision: str, features: frozenset[str], gpus: int) -> list[str]:
    """Returns one sentence for each setting that makes training many times slower.

    The factors are measured (docs/measurements/performance.md).
    """
    if gpus:
        return []
    is_short, limit = precision in _TWO_BYTE_PRECISIONS, settings.onednn_instructions()
    is_limited = limit and not limit.upper().startswith(_WITH_AVX512)
    if is_short and is_limited and "avx512f" in features:
        raise ConfigError(
            f"--precision={precision} with ONEDNN_MAX_CPU_ISA={limit}: oneDNN aborts the process at"
            " the first product. Unset ONEDNN_MAX_CPU_ISA, or use --precision=float32"
        )
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
    if is_short and not settings.has_tpu() and not has_bfloat16(features):
        effect = (
            "so float32 is used"
            if precision == "mixed"
            else "so a step is slower than in float32, 6 to 16 times with AVX2 only, and rounds more:"
            " convolutions accumulate in bfloat16 too"
        )
        found.append(
            f"--precision={precision}: this CPU reports no bfloat16 instructions"
            f" (avx512_bf16 or amx_bf16), {effect}"
        )
    return found


_GRACE_SECONDS = 30.0
_POLL_SECONDS = 0.1
Workers = list[subprocess.Popen[bytes]]


def run_workers(
    arguments: Sequence[str], count: int, logs: Path, *, quiet: bool = False, isolated: bool = True
) -> None:
    """Runs `count` processes of `python -m cloudgan ARGUMENTS`, one multiworker run, until they end.

    Each runs in its own session, so that Ctrl-C reaches it once, through this process; each watches
    its standard input and stops when this process dies. They share a network namespace unless `isolated`
    is False, because TensorFlow's servers listen on all addresses. The chief writes to standard output and
    error, the others, and with `quiet` the chief too, to logs in a folder.
    """
    gpus, stop, workers = share_gpus(count), StopSignal(), Workers()
    network = LoopbackNetwork.create() if isolated else None
    held = [hold_port() for _ in range(count)]
    peers = [f"127.0.0.1:{number_of(one)}" for one in held]
    command = [sys.executable, "-m", "cloudgan", *arguments]
    with ExitStack() as at_end:
        at_end.enter_context(stop.by_signals(RESUMES))
        if network:
            at_end.callback(network.close)
        at_end.callback(_end, workers)
        for one in held:
            at_end.enter_context(one)
        logs.mkdir(parents=True, exist_ok=True)
        for index in range(count):
            task = {"cluster": {"worker": peers}, "task": {"type": "worker", "index": index}}
            inherits = index == 0 and not quiet  # only the chief writes to the terminal
            with _log(logs, index).open("ab") as file:
                process = subprocess.Popen(  # noqa: S603
                    network.command(command) if network else command,
                    pass_fds=network.descriptors if network else (),
                    env=child_environment(
                        TF_CONFIG=json.dumps(task), CLOUDGAN_SUPERVISED="1", **SHARED, **gpus[index]
                    ),
                    stdin=subprocess.PIPE,
                    stdout=None if inherits else file,
                    stderr=None if inherits else file,
                    start_new_session=True,
                )
            workers.append(process)
        passed_on = 0
        while any(worker.poll() is None for worker in workers):
            if stop.number and stop.number != passed_on:
                passed_on = stop.number
                _signal(workers, passed_on)
            if not stop.number:
                _raise_for_dead(workers, logs)
            time.sleep(_POLL_SECONDS)
        if not stop.number:
            _raise_for_dead(workers, logs)


def _log(logs: Path, index: int) -> Path:
    return logs / f"worker-{index}.log"


def _raise_for_dead(workers: Workers, logs: Path) -> None:
    dead = [index for index, worker in enumerate(workers) if worker.poll()]
    if not dead:
        return
    # A killed worker has a negative exit code; the others fail as a consequence.
    first = min(dead, key=lambda index: workers[index].returncode)
    code, log = workers[first].returncode, _log(logs, first)
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    words = [line for line in lines if line.startswith("cloudgan: ")]
    said = f", which ends with {words[-1]!r}" if words else ""
    raise CloudganError(
        f"worker {first} of {len(workers)} (process {workers[first].pid}) died with {how};"
        f" the others were stopped. Its log is {log}{said}. Rerun the command to resume from"
        " the last checkpoint"
    )


def _signal(workers: Workers, number: int) -> None:
    for worker in workers:
        if worker.poll() is None:
            worker.send_signal(number)


def _end(workers: Workers) -> None:
    """Stops the running workers: SIGTERM, then SIGKILL after the grace period."""
    _signal(workers, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_SECONDS
    for worker in workers:
        try:
            worker.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        if worker.stdin:
            worker.stdin.close()
