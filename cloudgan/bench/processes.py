"""Processes that measure: programs that run to their end, children that yield a row on request, worlds of ranks.

TensorFlow reads threads and libraries once on import, so each variant has its own process. A child is
`python -m cloudgan.bench.processes TASK`; each line of its standard input asks for a row, and answers are JSON
lines. It exits when the pipe closes, also if the parent is killed. A rank is the same program: a function runs in each
one, and what it returns on rank 0 is the result of the world.
"""

from __future__ import annotations

import json
import os
import pkgutil
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from cloudgan.core import settings
from cloudgan.core.children import last_lines
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.loopback_network import IsolationError, LoopbackNetwork
from cloudgan.core.progress import Progress
from cloudgan.ranks.hydra import find_program
from cloudgan.ranks.placement import check_mpi

_END_SECONDS = 90.0  # a step of the paper preset, and its checkpoint


@dataclass
class Process:
    """Context manager of a process in its own session, without the terminal's Ctrl-C; it ends with the context.

    Attributes:
        name: What it is, for errors.
        command: Its words.
        environment: Additional variables.
        cores: To which it is pinned; empty: to none.
        descriptors: Which it inherits.
        answers: It reads requests and writes answers.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] | None = None
    cores: frozenset[int] = frozenset()
    descriptors: Sequence[int] = ()
    answers: bool = False

    def __enter__(self) -> Self:
        """Starts the process."""
        self._said = tempfile.TemporaryFile()
        own = {"TF_CONFIG": None, "CLOUDGAN_SUPERVISED": None, **(self.environment or {})}
        try:
            with _deferred_signals(), pinned(self.cores):
                self._process = subprocess.Popen(  # noqa: S603
                    self.command,
                    env=settings.child_environment(**own),
                    stdin=subprocess.PIPE if self.answers else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if self.answers else self._said,
                    stderr=self._said,
                    pass_fds=self.descriptors,
                    encoding="utf-8",
                    start_new_session=True,
                )
        except KeyboardInterrupt:
            if hasattr(self, "_process"):
                self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Asks it to end, so that it ends its own workers; kills it if it does not, or at a second Ctrl-C."""
        process = self._process
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, self._said):
            with suppress(BrokenPipeError):  # it died before it read the last request
                if pipe:
                    pipe.close()

    @property
    def process_id(self) -> int:
        """Process ID."""
        return self._process.pid

    def wait(self, seconds: float | None = None) -> None:
        """Waits for its end; another exit code than 0, and more than so many seconds, are a CloudganError."""
        try:
            if self._process.wait(seconds):
                raise self.death()
        except subprocess.TimeoutExpired as error:
            raise CloudganError(f"{self.name} did not end within {seconds:.0f} s") from error

    def death(self) -> CloudganError:
        """Returns the error of a process that ended: how, and its last lines."""
        code = self._process.wait()
        how = f"ended with exit code {code}"
        if code < 0:
            how = f"died with {signal.Signals(-code).name}"
        self._said.seek(0)
        said = last_lines(self._said.read().decode(errors="replace"))
        return CloudganError(f"{self.name} {how}{said}")


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Defers Ctrl-C and SIGTERM to the end of the block: in the middle of `Popen` its process would stay."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {n: signal.signal(n, lambda number, _: asked.append(number)) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for one in asked:
        signal.raise_signal(one)


@contextmanager
def pinned(cores: frozenset[int]) -> Iterator[None]:
    """Pins this thread, and the processes that it starts, to `cores`; an empty set changes nothing."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, before)


def make_showers(
    folder: Path, count: int, progress: Progress, cells: tuple[int, int] = (51, 51)
) -> Path:
    """Simulates `count` showers in a window of cells in x and y, and returns the store of them."""
    from cloudgan.data.convert import convert
    from cloudgan.data.hdf5_writer import write_hdf5
    from cloudgan.simulation.gflash import simulate

    progress.start(f"simulating and converting {count} showers")
    write_hdf5(folder / "showers.h5", simulate(count, seed=0, cells=cells))
    convert(str(folder / "showers.h5"), folder / "store", progress=progress)
    return folder / "store"


def program(
    *words: str, environment: Mapping[str, str] | None = None, cores: frozenset[int] = frozenset()
) -> Process:
    """Returns a call of `cloudgan`."""
    command = (sys.executable, "-m", "cloudgan", *words)
    said = f"`cloudgan {' '.join(words)}`"
    return Process(said, command, environment=environment, cores=cores)


def run_programs(*programs: Process) -> None:
    """Runs programs at the same time to their ends, and waits in their order: one that failed ends the later ones."""
    with ExitStack() as stack:
        for started in [stack.enter_context(one) for one in programs]:
            started.wait()


def core_shares(copies: int) -> list[frozenset[int]]:
    """Returns equal disjoint sets of cores; empty ones if the system cannot pin or has too few cores."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    each = len(cores) // copies
    return [frozenset(cores[each * i : each * (i + 1)]) for i in range(copies)]


class Child(Process):
    """A process that measures one variant and begins to build it at once. Calling it measures a row."""

    def __init__(
        self,
        variant: str,
        work: str,
        *,
        environment: Mapping[str, str] | None = None,
        cores: frozenset[int] = frozenset(),
        **given: Any,
    ) -> None:
        """Describes it: `work`, a generator function as ``module:function``, yields facts, then rows."""
        self.variant, task = variant, json.dumps({"work": work, "given": given})
        command = (sys.executable, "-m", "cloudgan.bench.processes", task)
        name = f"the process that measures {variant}"
        super().__init__(name, command, environment, cores, answers=True)

    def facts(self) -> dict[str, Any]:
        """Waits until the variant is built and returns its facts; raises what a call raises."""
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        if not line.endswith("\n"):
            raise self.death()
        answer: dict[str, Any] = parse_json(line, self.variant)
        if "missing" in answer:
            raise ModuleNotFoundError(answer["error"], name=answer["missing"])
        if "error" in answer:
            kind = ConfigError if answer["exit_code"] == ConfigError.exit_code else CloudganError
            raise kind(f"{self.variant}: {answer['error']}")
        return answer

    def __call__(self) -> dict[str, Any]:
        """Measures the next row."""
        try:
            self._process.stdin.write("\n")  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            raise self.death() from None
        return self.facts()


def run_ranks(work: str, ranks: int, *, limit: float, remedy: str, **given: Any) -> Any:
    """Calls a function in each rank of a new world on this machine; returns what it returned on rank 0.

    The function, ``module:function``, gets the world and `given`, and returns a JSON value. `remedy` says what
    to do if this machine cannot isolate the ports of ranks. The world ends after `limit` seconds.
    """
    check_mpi("a world of ranks")
    mpiexec = str(find_program())
    try:
        network = LoopbackNetwork.create()
    except IsolationError as error:
        raise ConfigError(
            "ranks are started with mpiexec, which listens on all addresses of this machine and cannot"
            f" be isolated here: {error}. {remedy}"
        ) from error
    with closing(network), tempfile.TemporaryDirectory(prefix="cloudgan-bench-") as folder:
        result = Path(folder, "result.json")
        task = json.dumps({"work": work, "given": given, "result": str(result)})
        command = [mpiexec, "-launcher", "fork", "-n", str(ranks)]
        command += [sys.executable, "-m", "cloudgan.bench.processes", task]
        command, inherited = network.command(command), network.descriptors
        with Process(f"{ranks} ranks", command, descriptors=inherited) as process:
            process.wait(limit)
        return parse_json(result.read_bytes(), "the result of the ranks")


def as_rank(work: Callable[[Any], Any]) -> tuple[int, Any]:
    """Joins the world of this process, does the work of its rank, and leaves in order; returns the rank and its result.

    A rank that fails ends by `os._exit`, as a training rank does, and the others with it.
    """
    from cloudgan.ranks import mpi  # imports NumPy, which help does without

    world = mpi.world()
    mpi.end_with_parent(1)
    try:
        found = work(world)
        world.gather(None)
        mpi.finalize()
    except CloudganError as error:
        sys.stderr.write(f"rank {world.rank}: {error}\n")
        mpi.leave(error.exit_code)
    return world.rank, found


def _answer(task: Mapping[str, Any]) -> None:
    """Answers with facts, then with a row per request until standard input ends; then exits, even within a turn."""
    settings.quiet_tensorflow()
    # Libraries write to standard output, so answers get a pipe of their own.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            requests.put(line)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    rows: Iterator[dict[str, Any]] | None = None
    while True:
        try:
            rows = rows or pkgutil.resolve_name(task["work"])(**task["given"])
            answer = next(rows)
        except CloudganError as error:
            answer = {"error": str(error), "exit_code": error.exit_code}
        except ModuleNotFoundError as error:
            answer = {"error": str(error), "missing": error.name}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        requests.get()


def main() -> None:
    """Does the task on the command line: a child's, or this process' rank of a world."""
    task = parse_json(sys.argv[1], "task")
    if "result" not in task:
        _answer(task)
    rank, found = as_rank(partial(pkgutil.resolve_name(task["work"]), **task["given"]))
    if rank == 0:
        Path(task["result"]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
