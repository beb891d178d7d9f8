"""Runs a command line in this process and checks its exit code, its output, and what it left behind.

A case fails if the command ends with an undocumented exit code or with a traceback, prints more than three
lines on standard error, does not end in time, or leaves a file, process, thread, open file, signal handler
or temporary file behind.
"""

import contextlib
import hashlib
import io
import json
import os
import resource
import shutil
import signal
import stat
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from multiprocessing import resource_tracker
from pathlib import Path

from cloudgan.cli.main import main
from cloudgan.cli.program import before_command

resource_tracker.ensure_running()  # one process of Python itself, which ends with this one

DOCUMENTED = frozenset({0, 2, 3, 5, 6, 7})
"""Exit codes of a command with bad input; 1 would be a fault of cloudgan."""
REFUSED = 2
"""A command that ends with it has changed no file, whatever `Case.writes` allows."""
MOST_LINES = 3
SECONDS = 10.0
"""Until a command counts as hanging, on a machine with a free core; see `_limited`."""
MEMORY_BYTES = 3 << 30
"""A command may allocate this much more than the process has: a reader of /dev/zero must not fill the machine."""


class HangError(BaseException):
    """The command did not end in time; not an Exception, so that code which retries cannot catch it."""


class SignalSentError(BaseException):
    """The command sent a signal to a process that it did not start."""


@dataclass(frozen=True)
class Case:
    """One command line with its files and its environment.

    Attributes:
        words: The command line. ``{here}`` is replaced by the working folder.
        files: Content by name, or a function that makes the file; they replace those of the project.
        environment: Variables; None removes one.
        exits: Allowed exit codes.
        writes: Patterns of the files that the command may write or change.
        changes: What was changed, for the report.
    """

    words: tuple[str, ...]
    files: Mapping[str, bytes | Callable[[Path], None]] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str | None] = field(default_factory=dict)
    exits: frozenset[int] = DOCUMENTED
    writes: tuple[str, ...] = ()
    changes: str = ""


class Workplace:
    """A folder in which commands run one after the other, beside one that none may touch."""

    def __init__(self, folder: Path, seeds: Path) -> None:
        self._seeds = seeds
        self._guard, self._temporary = folder / "guard", folder / "temporary"
        self._here, self._home = folder / "guard" / "here", folder / "home"
        self._home.mkdir(parents=True)
        theirs = self._guard / "other" / "runs" / "theirs"
        theirs.mkdir(parents=True)
        (theirs / "record.jsonl").write_text("{}\n")
        (self._guard / "precious.txt").write_text("not part of any run")

    def run(self, case: Case) -> int:
        """Runs a case; returns its exit code, or raises AssertionError with its faults."""
        if not self._here.exists():
            shutil.copytree(self._seeds, self._here, symlinks=True)
        self._temporary.mkdir(exist_ok=True)
        for name, content in case.files.items():
            path = self._here / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.unlink(missing_ok=True)
                path.write_bytes(content)
            else:
                content(path)
        is_unchanged = False
        try:
            with self._surroundings(case):
                before = _Surroundings(self._guard)
                exit_code, faults, said = _call(
                    [word.replace("{here}", str(self._here)) for word in case.words]
                )
                after = _Surroundings(self._guard)
            for left in self._temporary.iterdir():
                unexpected = left.match("cloudgan-*.traceback.txt")
                faults.append(left.read_text()[-2000:] if unexpected else f"left: {left.name}")
            is_unchanged = before.files == after.files and not faults
        finally:
            # To copy the project takes as long as most commands; few change more than the case did.
            if is_unchanged:
                self._restore(case.files)
            else:
                for folder in (self._here, self._temporary):
                    _remove(folder)
        faults += _judge(case, exit_code, *said)
        writes = () if exit_code == REFUSED else case.writes
        faults += after.differences(before, ("here", *(f"here/{each}" for each in writes)))
        said = "\n".join(f"{text:.2000}" for text in said)
        assert not faults, "\n".join([f"{case!r:.2000}", *faults, f"exit {exit_code}", said])
        return exit_code

    def _restore(self, names: Iterable[str]) -> None:
        for path, seed in ((self._here / name, self._seeds / name) for name in names):
            if path.is_dir() and not path.is_symlink():
                _remove(path)
            path.unlink(missing_ok=True)
            if seed.exists():
                shutil.copy2(seed, path)

    @contextlib.contextmanager
    def _surroundings(self, case: Case) -> Iterator[None]:
        environment, temporary = dict(os.environ), tempfile.tempdir
        limits = resource.getrlimit(resource.RLIMIT_AS)
        handlers = _handlers()
        # Libraries keep caches at home.
        os.environ.update(TMPDIR=str(self._temporary), HOME=str(self._home))
        for name, value in case.environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value.replace("{here}", str(self._here))
        tempfile.tempdir = str(self._temporary)
        try:
            with contextlib.chdir(self._here):
                yield
        finally:
            tempfile.tempdir = temporary
            os.environ.clear()
            os.environ.update(environment)
            resource.setrlimit(resource.RLIMIT_AS, limits)
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _call(words: list[str]) -> tuple[int | None, list[str], tuple[str, str]]:
    """Returns the exit code, the uncaught error, and what was printed."""
    exit_code, faults = None, []
    with _captured() as output:
        try:
            with _limited(), _without_signals(), warnings.catch_warnings():
                warnings.simplefilter("default")
                main(words)
        except SystemExit as ended:
            exit_code = (ended.code or 0) if isinstance(ended.code, int | None) else 1
        except BaseException:  # noqa: BLE001  each is a fault
            faults.append(traceback.format_exc()[-2000:])
    return exit_code, faults, output()


def _handlers() -> dict[int, object]:
    return {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}


class _Surroundings:
    """What a command must leave as it was."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = dict(_listing(folder))
        self.processes = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}
        self.handlers = _handlers()
        threads = {f"thread {thread.name}" for thread in threading.enumerate()}
        self.held = threads | {f"open file {name}" for name in _open_files()}

    def differences(self, before, allowed: tuple[str, ...]) -> list[str]:
        """Returns what is different from `before`, except the files that match `allowed`."""
        changed = {name for name, _ in self.files.items() ^ before.files.items()}
        found = [
            f"changed: {name}"
            for name in sorted(changed)
            if not any(fnmatch(name, each) for each in allowed)
        ]
        found += [f"left: {each}" for each in self.held - before.held]
        if self.handlers != before.handlers:
            found.append("left: a signal handler")
        for process in self.processes - before.processes:
            with contextlib.suppress(OSError):
                if Path(f"/proc/{process}/cwd").readlink().is_relative_to(self.folder):
                    found.append(f"left: process {process}")
        return found


def _listing(folder: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    for path in folder.rglob("*"):
        name, known = str(path.relative_to(folder)), path.lstat()
        if stat.S_ISDIR(known.st_mode):
            yield name, ("folder",)
        else:
            times = known.st_mode, known.st_size, known.st_mtime_ns, known.st_ino
            yield name, (*times, _digest(path))


def _digest(path: Path) -> str:
    """SHA-256 of a file, of a link its target; a pipe and a sparse file of 1 TiB have none."""
    if path.is_symlink():
        return str(path.readlink())
    is_read = path.is_file() and path.stat().st_size < MEMORY_BYTES // 100
    return hashlib.sha256(path.read_bytes()).hexdigest() if is_read else ""


def _open_files() -> Iterator[str]:
    """Yields the names of the open files, without devices, pipes and deleted files."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            name = descriptor.readlink()
            if name.is_absolute() and name.is_file():
                yield str(name)


def _judge(case: Case, exit_code: int | None, stdout: str, stderr: str) -> list[str]:
    words, _ = before_command(case.words)  # behind -- it is an argument
    asked = "--traceback" in words
    message = f"\n{stderr}".rpartition("\ncloudgan: ")[2]  # progress and notes come before it
    shown = {
        "a traceback is printed": "Traceback (most recent call last)" in stdout + stderr,
        f"an error has more than {MOST_LINES} lines": exit_code
        and len(message.strip("\n").splitlines()) > MOST_LINES,
    }
    faults = [text for text, holds in shown.items() if holds and not asked]
    if exit_code not in case.exits:
        faults.append(f"the exit code is {exit_code}")
    if exit_code and not stderr.strip():
        faults.append("an error without a message")
    if "--json" in words and {"--help", "-h", "logs"}.isdisjoint(words):
        try:
            json.loads(stdout)
        except ValueError:
            faults.append("--json printed no JSON")
    return faults


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Limits the memory of a command and its time: processes that wait for a core run slower."""

    def expire(number: int, frame: object) -> None:
        raise HangError

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, most))
    before = signal.signal(signal.SIGALRM, expire)
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    signal.setitimer(signal.ITIMER_REAL, SECONDS * max(1.0, load))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _without_signals() -> Iterator[None]:
    """Lets the command signal no process: a document may name any process of this machine."""
    real, real_group = os.kill, os.killpg

    def kill(process: int, number: int) -> None:
        if number and _parent(process) != os.getpid():
            raise SignalSentError(f"signal {number} to process {process}")
        real(process, number)

    os.kill = os.killpg = kill
    try:
        yield
    finally:
        os.kill, os.killpg = real, real_group


def _parent(process: int) -> int | None:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


@contextlib.contextmanager
def _captured() -> Iterator[Callable[[], tuple[str, str]]]:
    """Captures the file descriptors 1 and 2, so that the output of libraries counts; stdin is empty."""
    kept = [os.dup(number) for number in range(3)]
    streams = sys.stdin, sys.stdout, sys.stderr
    contents: list[str] = []
    with (
        Path(os.devnull).open("rb") as nothing,
        tempfile.TemporaryFile(dir="/tmp") as out,
        tempfile.TemporaryFile(dir="/tmp") as err,
    ):
        for stream in streams[1:]:
            stream.flush()
        for number, file in enumerate((nothing, out, err)):
            os.dup2(file.fileno(), number)

        def opened(number: int, mode: str, errors: str) -> io.TextIOWrapper:
            raw = io.FileIO(number, mode, closefd=False)
            return io.TextIOWrapper(raw, "utf-8", errors, write_through=mode == "w")

        sys.stdin = opened(0, "r", "strict")
        sys.stdout, sys.stderr = opened(1, "w", "replace"), opened(2, "w", "backslashreplace")
        try:
            yield lambda: (contents[0], contents[1])
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            sys.stdin, sys.stdout, sys.stderr = streams
            for number, file in enumerate(kept):
                os.dup2(file, number)
                os.close(file)
            for file in (out, err):
                file.seek(0)
                contents.append(file.read().decode("utf-8", "replace"))


def _remove(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
