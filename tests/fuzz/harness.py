"""Runs a command line in this process and checks its exit code, its output, and what it left behind.

A case fails if the command ends with an undocumented exit code or with a traceback, prints more than three
lines on standard error, does not end in time, or leaves a file, process, thread, open file, signal handler
or temporary file behind.
"""

from __future__ import annotations

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
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatch
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.main import main
from cloudgan.cli.program import before_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Writer = Callable[[Path], None]

resource_tracker.ensure_running()  # one process of Python itself, which ends with this one

DOCUMENTED = frozenset({0, 2, 3, 5, 6, 7})
"""Exit codes of a command with bad input; 1 would be a fault of cloudgan."""
REFUSED = 2
"""A command that ends with it has changed no file, whatever `Case.writes` allows."""
MOST_LINES = 3
SECONDS = 10.0
"""Until a command counts as hanging, on a machine with a free core; see `_patience`."""
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
    files: Mapping[str, bytes | Writer] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str | None] = field(default_factory=dict)
    exits: frozenset[int] = DOCUMENTED
    writes: tuple[str, ...] = ()
    changes: str = ""

    def describe(self) -> str:
        """Returns the case in one line."""
        words = " ".join(
            word if len(word) < 80 else f"{word[:60]}...({len(word)})" for word in self.words
        )
        variables = " ".join(f"{name}={value!r:.80}" for name, value in self.environment.items())
        return f"{variables} cloudgan {words}  [{self.changes}]".strip()


@dataclass(frozen=True)
class Fault:
    """A case that failed, and its cause: cases with one cause are reported once."""

    cause: str
    case: Case
    details: str

    @property
    def is_hang(self) -> bool:
        """Whether the command did not end in time."""
        return self.cause.startswith("hang")


class Findings:
    """The faults of one class of cases, by cause."""

    def __init__(self) -> None:
        self.tried = 0
        self.faults: dict[str, list[Fault]] = {}
        self.exits: Counter[int] = Counter()

    def add(self, fault: Fault) -> None:
        """Adds a fault to those of its cause."""
        self.faults.setdefault(fault.cause, []).append(fault)

    def raise_if_any(self) -> None:
        """Fails with one example for each cause."""
        if not self.faults:
            return
        lines = []
        for cause, faults in sorted(self.faults.items(), key=lambda item: -len(item[1])):
            lines += [
                f"{len(faults)} x {cause}",
                f"  {faults[0].case.describe()}",
                faults[0].details,
            ]
        raise AssertionError(
            f"{len(self.faults)} causes in {self.tried} cases\n" + "\n".join(lines)
        )


class Workplace:
    """A folder in which commands run one after the other, beside one that none may touch."""

    def __init__(self, folder: Path, seeds: Path) -> None:
        self._seeds = seeds
        self._guard = folder / "guard"
        self._here = folder / "guard" / "here"
        self._temporary = folder / "temporary"
        self._home = folder / "home"
        self._home.mkdir(parents=True)
        self._guard.mkdir(parents=True)
        (self._guard / "precious.txt").write_text("not part of any run")
        (self._guard / "other" / "runs" / "theirs").mkdir(parents=True)
        (self._guard / "other" / "runs" / "theirs" / "record.jsonl").write_text("{}\n")

    def run(self, case: Case) -> Fault | None:
        """Runs a case; returns its fault, or None."""
        self._prepare(case)
        try:
            with self._surroundings(case):
                before = _Surroundings(self._guard)
                exit_code, details, said = self._call(case)
                after = _Surroundings(self._guard)
                left = sorted(path.name for path in self._temporary.iterdir())
                cause = self._traceback() or details
        finally:
            _remove(self._here)
            _remove(self._temporary)
        problems = [cause] if cause else []
        if not cause:
            problems += _judge(case, exit_code, said)
            problems += [f"temporary file left: {name}" for name in left]
            writes = () if exit_code == REFUSED else case.writes
            problems += after.differences(before, ("here", *(f"here/{each}" for each in writes)))
        if not problems:
            self.exit_code = exit_code
            return None
        return Fault(problems[0], case, f"  exit {exit_code}\n" + _indented(said))

    def _prepare(self, case: Case) -> None:
        shutil.copytree(self._seeds, self._here, symlinks=True)
        self._temporary.mkdir()
        for name, content in case.files.items():
            path = self._here / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.unlink(missing_ok=True)
                path.write_bytes(content)
            else:
                content(path)

    @contextlib.contextmanager
    def _surroundings(self, case: Case) -> Iterator[None]:
        cwd, environment, temporary = Path.cwd(), dict(os.environ), tempfile.tempdir
        limits = resource.getrlimit(resource.RLIMIT_AS)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        os.chdir(self._here)
        os.environ.update(
            TMPDIR=str(self._temporary), HOME=str(self._home)
        )  # libraries keep caches at home
        for name, value in case.environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value.replace("{here}", str(self._here))
        tempfile.tempdir = str(self._temporary)
        try:
            yield
        finally:
            tempfile.tempdir = temporary
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(cwd)
            resource.setrlimit(resource.RLIMIT_AS, limits)
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _call(self, case: Case) -> tuple[int | None, str, tuple[str, str]]:
        """Returns the exit code, the cause of an uncaught error, and what was printed."""
        words = [word.replace("{here}", str(self._here)) for word in case.words]
        exit_code: int | None = None
        cause = ""
        with _captured() as output:
            try:
                with _limited(_patience()), _without_signals(), warnings.catch_warnings():
                    warnings.simplefilter("default")
                    main(words)
            except SystemExit as ended:
                exit_code = (
                    ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
                )
            except HangError as error:
                cause = f"hang at {last_frame(error)}"
            except BaseException as error:  # noqa: BLE001  each is a fault
                cause = f"{type(error).__name__} uncaught at {last_frame(error)}: {error!s:.200}"
        return exit_code, cause, output()

    def _traceback(self) -> str:
        """Returns the cause of an unexpected error, which the command writes to a file."""
        for path in self._temporary.glob("cloudgan-*.traceback.txt"):
            lines = path.read_text().splitlines()
            frames = [line.strip() for line in lines if line.startswith('  File "')]
            ours = [
                frame for frame in frames if "/cloudgan/cloudgan/" in frame or "/cloudgan/" in frame
            ]
            ours = [f for f in ours if "site-packages" not in f and "/tests/" not in f]
            error = next(
                (line for line in reversed(lines) if line and not line.startswith(" ")), ""
            )
            at = " < ".join(_short(frame) for frame in reversed(ours[-3:]))
            return f"{error.split(':')[0]} at {at}"
        return ""


class _Surroundings:
    """What a command must leave as it was."""

    def __init__(self, folder: Path) -> None:
        self.files = dict(_listing(folder))
        self.threads = {thread.name for thread in threading.enumerate()}
        self.processes = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}
        self.open_files = _open_files()
        self.handlers = {
            number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)
        }
        self.folder = folder

    def differences(self, before: _Surroundings, allowed: tuple[str, ...]) -> list[str]:
        """Returns what is different from `before`, except the files that match `allowed`."""
        found = []
        for name in sorted({*self.files, *before.files}):
            if self.files.get(name) != before.files.get(name) and not any(
                fnmatch(name, each) for each in allowed
            ):
                verb = (
                    "changed"
                    if name in self.files and name in before.files
                    else ("left behind" if name in self.files else "deleted")
                )
                found.append(f"{verb}: {name}")
        found += [f"thread left: {name}" for name in self.threads - before.threads]
        found += [f"open file left: {name}" for name in self.open_files - before.open_files]
        if self.handlers != before.handlers:
            found.append("signal handler left")
        for process in self.processes - before.processes:
            with contextlib.suppress(OSError):
                if Path(f"/proc/{process}/cwd").readlink().is_relative_to(self.folder):
                    found.append("process left")
        return found


def _listing(folder: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    for path in sorted(folder.rglob("*")):
        known = path.lstat()
        if stat.S_ISDIR(known.st_mode):
            yield str(path.relative_to(folder)), ("folder",)
        else:
            yield (
                str(path.relative_to(folder)),
                (known.st_mode, known.st_size, known.st_mtime_ns, known.st_ino, _digest(path)),
            )


def _digest(path: Path) -> str:
    """SHA-256 of a file, of a link its target; a pipe and a sparse file of 1 TiB have none."""
    if path.is_symlink():
        return str(path.readlink())
    is_read = path.is_file() and path.stat().st_size < MEMORY_BYTES // 100
    return hashlib.sha256(path.read_bytes()).hexdigest() if is_read else ""


def _open_files() -> frozenset[str]:
    """Returns the names of the open files, without devices, pipes and deleted files."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            name = descriptor.readlink()
            if name.is_absolute() and name.is_file():
                found.append(str(name))
    return frozenset(found)


def _judge(case: Case, exit_code: int | None, said: tuple[str, str]) -> list[str]:
    stdout, stderr = said
    problems = []
    words, _ = before_command(case.words)  # behind -- it is an argument
    asked = "--traceback" in words
    if "Traceback (most recent call last)" in stdout + stderr and not asked:
        problems.append("traceback printed")
    if exit_code not in case.exits:
        first = stderr.strip().splitlines()[-1:] or [""]
        problems.append(f"exit code {exit_code}: {first[0]:.100}")
    message = f"\n{stderr}".rpartition("\ncloudgan: ")[2]  # progress and notes come before it
    if exit_code and not asked and len(message.strip("\n").splitlines()) > MOST_LINES:
        problems.append(f"an error message of more than {MOST_LINES} lines")
    if exit_code and not stderr.strip():
        problems.append(f"exit code {exit_code} without a message")
    if "--json" in words and {"--help", "-h", "logs"}.isdisjoint(words):
        try:
            json.loads(stdout)
        except ValueError:
            problems.append(f"--json printed no JSON (exit code {exit_code})")
    return problems


def _patience() -> float:
    """Returns the seconds until a command counts as hanging: processes that wait for a core run slower."""
    return SECONDS * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raises HangError in the command after `seconds`, and limits its memory."""

    def expire(number: int, frame: object) -> None:
        raise HangError

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, most))
    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _without_signals() -> Iterator[None]:
    """Lets the command signal no process: a document may name any process of this machine."""

    def kill(process: int, number: int) -> None:
        if number and _parent(process) != os.getpid():
            raise SignalSentError(f"signal {number} to process {process}")
        real(process, number)

    real, real_group = os.kill, os.killpg
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
    with (
        Path(os.devnull).open("rb") as nothing,
        tempfile.TemporaryFile(dir="/tmp") as out,
        tempfile.TemporaryFile(dir="/tmp") as err,
    ):
        for stream in streams[1:]:
            stream.flush()
        for number, file in enumerate((nothing, out, err)):
            os.dup2(file.fileno(), number)
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")
        sys.stdout = io.TextIOWrapper(
            io.FileIO(1, "w", closefd=False), "utf-8", "replace", write_through=True
        )
        sys.stderr = io.TextIOWrapper(
            io.FileIO(2, "w", closefd=False),
            encoding="utf-8",
            errors="backslashreplace",
            write_through=True,
        )
        contents: list[str] = []
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
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def last_frame(error: BaseException) -> str:
    """Returns the last frames of cloudgan in the traceback of an error."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame
        for frame in frames
        if "/cloudgan/" in frame.filename and "site-packages" not in frame.filename
    ]
    found = ours[-3:] or frames[-1:]
    return " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(found))


def _short(frame: str) -> str:
    parts = frame.replace('File "', "").replace('"', "").split(", ")
    return f"{'/'.join(Path(parts[0]).parts[-2:])}:{parts[1].removeprefix('line ')} {' '.join(parts[2:]).removeprefix('in ')}"


def _indented(said: tuple[str, str]) -> str:
    lines = [
        *(f"  err| {line:.300}" for line in said[1].splitlines()[:6]),
        *(f"  out| {line:.200}" for line in said[0].splitlines()[-3:]),
    ]
    return "\n".join(lines)
