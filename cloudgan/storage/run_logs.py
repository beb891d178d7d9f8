"""Logs of workers in a store: compressed objects ``runs/RUN/logs/INDEX/NAME.gz``.

Pods write them, so their content is not trusted: a damaged or huge log ends with a line that says so.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from cloudgan.storage.store import Store

LARGEST_BYTES: Final = 256 << 20
"""Limit of one log, compressed and uncompressed; zlib expands 1 MB to 1 GB at most."""
_CHUNK_BYTES: Final = 1 << 20
_NAME = re.compile(r"(\d{1,6})/[\w.-]+\.gz", re.ASCII)


class RunLog(NamedTuple):
    """A log: index of its worker, and name of its object."""

    worker: int
    name: str


def list_run_logs(store: Store, run: str) -> list[RunLog]:
    """Returns the logs of a run, by worker and then by name."""
    start = f"runs/{run}/logs/"
    found = ((_NAME.fullmatch(name.removeprefix(start)), name) for name in store.list(start))
    return sorted(RunLog(int(match[1]), name) for match, name in found if match)


def read_run_log(store: Store, name: str, largest_bytes: int = LARGEST_BYTES) -> Iterator[str]:
    """Yields the lines of a log; the last one says what is missing of a damaged or huge log."""
    size = store.size_bytes(name)
    if size > largest_bytes:
        yield f"[{store.url}/{name} has {size} bytes, more than {largest_bytes}: not read]"
        return
    content, problem = _decompressed(store.read(name), largest_bytes)
    yield from content.decode(errors="replace").splitlines()
    if problem:
        yield f"[{store.url}/{name}: {problem}]"


def _decompressed(packed: bytes, largest_bytes: int) -> tuple[bytes, str]:
    """The content up to the limit or the first damaged byte, and why it is not complete."""
    content = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            while len(content) <= largest_bytes:
                chunk = file.read1(_CHUNK_BYTES)
                if not chunk:
                    return bytes(content), ""
                content += chunk
    except (OSError, EOFError, zlib.error) as error:
        return bytes(content), f"damaged after {len(content)} bytes of text ({error})"
    return bytes(content[:largest_bytes]), f"only the first {largest_bytes} bytes are shown"
