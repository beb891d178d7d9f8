"""Locks of files that are being written, so that two processes never write one target."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, TextIO

from cloudgan.core.atomic_file import atomic_writer, unfinished, write_error
from cloudgan.core.errors import ConfigError

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

_PAUSE_SECONDS = 0.01
_HELD: ContextVar[dict[Path, bool]] = ContextVar("locks of this thread", default={})  # noqa: B039 - never changed


def cut_last_line(path: Path) -> None:
    """Removes a last line without an end, which a killed process or a full disk left; lock the file first."""
    with path.open("r+b") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)


def append_line(path: Path, line: str) -> None:
    """Appends a line to a file under its lock and flushes it to the disk; removes half a last line first."""
    with path.open("ab") as file:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # not every file system has locks
                fcntl.flock(file, fcntl.LOCK_EX)
        cut_last_line(path)
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


class HeldError(Exception):
    """Another process holds a lock; its text is the id of that process, or ``?``."""


@contextlib.contextmanager
def locked_target(target: Path) -> Iterator[bool]:
    """Prevents a second process on this machine from writing `target` during the block.

    The lock ends with the process that holds it (flock): a killed process blocks no later one. Yields
    False on a file system without locks. Writers have unique temporary names there, and the last one
    that finishes remains. A thread that holds the lock may enter it again: a command takes it before long
    work, and the writer that it calls takes it too. A block that fails leaves no new folder that is empty.

    Raises:
        ConfigError: Another process writes it, or the folder is not writable.
        DiskFullError: The disk is full.
    """
    path, held = target.with_name(f".{target.name}.lock"), _HELD.get()
    if path.absolute() in held:
        yield held[path.absolute()]
        return
    new = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file, is_locked = take(path)
    except HeldError as holder:
        raise ConfigError(
            f"{target} is being written by process {holder}; wait for it, or give another target"
        ) from holder
    except OSError as error:
        raise write_error(target, error, ConfigError) from error
    token = _HELD.set({**held, path.absolute(): is_locked})
    try:
        yield is_locked
    finally:
        _HELD.reset(token)
        with contextlib.suppress(OSError):
            path.unlink()
        file.close()
        with contextlib.suppress(OSError):  # it is not empty
            for folder in new:
                folder.rmdir()


@contextlib.contextmanager
def awaited_target(target: Path, seconds: float = 60.0) -> Iterator[bool]:
    """Like `locked_target`, but waits for a process that writes it, at most so many seconds."""
    end = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        while True:
            try:
                is_locked = stack.enter_context(locked_target(target))
                break
            except ConfigError as error:
                if not isinstance(error.__cause__, HeldError) or time.monotonic() > end:
                    raise
                time.sleep(_PAUSE_SECONDS)
        yield is_locked


@contextlib.contextmanager
def locked_writer(target: Path) -> Iterator[BinaryIO]:
    """Yields a file that replaces `target` when the block succeeds; no other process writes it meanwhile.

    Removes what killed writers of `target` left.
    """
    with locked_target(target) as is_locked:
        for left in unfinished(target) if is_locked else ():
            left.unlink(missing_ok=True)
        with atomic_writer(target, error_class=ConfigError) as file:
            yield file


def take(path: Path) -> tuple[TextIO, bool]:
    """Locks a file until it is closed, and writes the id of this process into it.

    The holder may delete the file: the next process locks a new one.

    Returns:
        The file, and whether it is locked: not every system and file system has locks.

    Raises:
        HeldError: Another process holds it.
        OSError: The file cannot be written.
    """
    while True:
        file = path.open("a+", encoding="utf-8")
        try:
            is_locked = _lock(file)
            if not is_locked or _is_at(path, file):
                file.truncate(0)
                file.write(str(os.getpid()))
                file.flush()
                return file, is_locked
        except BaseException:
            file.close()
            raise
        file.close()  # its former holder deleted it after it was opened here


def holder(path: Path, unsure: str | None = None) -> str | None:
    """Returns the id of the process that holds a lock, or ``?``; None: no process does.

    Args:
        path: The lock.
        unsure: Returned if the file exists on a file system without locks.
    """
    try:
        with path.open(encoding="utf-8") as file:
            if not _lock(file):
                return unsure
    except HeldError as error:
        return str(error)
    except OSError:
        return None
    return None


def _lock(file: TextIO) -> bool:
    """Locks an open file; False: not on this system, or not on this file system."""
    is_locked = False
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        except BlockingIOError as error:
            file.seek(0)
            raise HeldError(file.read().strip() or "?") from error
        except OSError:
            pass
    return is_locked


def _is_at(path: Path, file: TextIO) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
