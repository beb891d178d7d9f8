"""Compares the files of a sharded dataset with its manifest."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.errors import DataError
from cloudgan.core.hardware import this_machine
from cloudgan.data.record_checksums import first_damaged
from cloudgan.data.shards.manifest import MANIFEST, SHARD_SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.progress import Progress
    from cloudgan.data.shards.manifest import Manifest, ShardInfo


class FileIdentity(NamedTuple):
    """What a write to a file, or its replacement, changes.

    Without the inode: file systems over object stores may assign another one at every opening.
    """

    size: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileIdentity:
        """Returns the identity in a result of `os.stat` or `os.fstat`."""
        return cls(status.st_size, status.st_mtime_ns)


def check_folder(folder: Path, manifest: Manifest) -> None:
    """Checks that the folder holds the shards of the manifest, of the right sizes, and no others.

    Raises:
        DataError: A shard is missing, has another size, or belongs to another set.
    """
    for shard in manifest.shards:
        check_size(folder, shard)
    listed = {shard.name for shard in manifest.shards}
    found = {path.name for path in folder.glob(f"*{SHARD_SUFFIX}")}
    if others := sorted(found - listed):
        raise DataError(
            f"{folder} holds {others[0]}, which its {MANIFEST} does not list: two sets are mixed."
            " Run convert again."
        )


def check_size(folder: Path, shard: ShardInfo, name: str = "") -> None:
    """Checks that a shard exists and has the size that the manifest states.

    Raises:
        DataError: It is missing, truncated, or longer.
    """
    path = folder / shard.name
    name = name or str(path)
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{name} is missing: run convert again ({error.strerror})") from error
    if size != shard.bytes:
        what = "truncated" if size < shard.bytes else "not the original file"
        raise DataError(
            f"{name} is {what}: {size} bytes, the manifest says {shard.bytes}."
            " Copy it again or run convert again."
        )


def check_shard(folder: Path, shard: ShardInfo, name: str = "") -> FileIdentity:
    """Compares size and SHA-256 of a shard with the manifest; returns the identity of that file.

    Args:
        folder: The folder of the shard.
        shard: Its entry in the manifest.
        name: Name of the shard in messages. Default: its path.

    Raises:
        DataError: It is missing or differs; names the first record whose own checksum is wrong.
    """
    path = folder / shard.name
    name = name or str(path)
    check_size(folder, shard, name)
    try:
        with path.open("rb") as file:
            identity = FileIdentity.of(os.fstat(file.fileno()))
            if hashlib.file_digest(file, "sha256").hexdigest() == shard.sha256:
                return identity
            file.seek(0)
            damaged = first_damaged(file.read())
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror}") from error
    if damaged is None:
        raise DataError(
            f"{name} is not the file that {MANIFEST} lists: its records are intact, its SHA-256"
            " differs. Copy the whole set again or run convert again."
        )
    raise DataError(
        f"{name}, record {damaged.record}: damaged: {damaged.problem}. Copy the file again or run"
        " convert again."
    )


def check_shards(folder: Path, manifest: Manifest, progress: Progress) -> list[FileIdentity]:
    """Checks every shard, with one thread per core.

    Returns:
        The identity of each checked file, in the order of the manifest.

    Raises:
        DataError: As `check_folder` and `check_shard`.
    """
    check_folder(folder, manifest)
    progress.start("Checking shards", len(manifest.shards), "shards")
    found = []
    pool = ThreadPoolExecutor(this_machine().cores, thread_name_prefix="check")
    try:
        for identity in pool.map(lambda shard: check_shard(folder, shard), manifest.shards):
            found.append(identity)
            progress.advance()
    finally:
        pool.shutdown(cancel_futures=True)
    return found
