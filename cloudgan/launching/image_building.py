"""Lets a cloud's own builder make an image: what there has to be, the build, and how it ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.core.image_order import Build, ImageOrder

_POLL_SECONDS = 5.0
_PATIENCE_SECONDS = 5400.0
"""Above the hour after which each cloud ends a build by itself, and what it waits in a queue."""
_LAST_LINES = 20


class ImageBuilder(Protocol):
    """One account of one cloud, as far as it builds images.

    All methods raise `CredentialsError` where the login is missing or may not do this, and
    `LaunchError` where the cloud refuses or stays away.
    """

    def make(self, order: ImageOrder) -> Iterator[str]:
        """Ensures what a build needs, the registry first; yields what was not there before."""

    def begin(self, order: ImageOrder, archive: bytes) -> str:
        """Uploads the context and starts a build; returns how the cloud calls it."""

    def look(self, order: ImageOrder, build: str) -> Build:
        """Returns how a build is doing."""


def build_image(
    builder: ImageBuilder,
    order: ImageOrder,
    archive: bytes,
    say: Callable[[str], None],
    show: Callable[[str], None],
    *,
    poll_seconds: float = _POLL_SECONDS,
    patience_seconds: float = _PATIENCE_SECONDS,
) -> str:
    """Builds an image and waits for it; Ctrl-C leaves the build alone, which ends by itself.

    Args:
        builder: Of a cloud.
        order: What is built.
        archive: The context, packed as this cloud takes it.
        say: Is told what was made.
        show: Gets each line of the build's log.
        poll_seconds: Between two looks.
        patience_seconds: For the build to end.

    Returns:
        The image's digest.

    Raises:
        LaunchError: It failed, with its last lines; or it did not end.
    """
    for made in builder.make(order):
        say(f"made {made}")
    name = builder.begin(order, archive)
    say(f"build {name} began")
    began, shown = monotonic_seconds(), 0
    while True:
        build = builder.look(order, name)
        whole = build.log.rfind("\n") + 1 if build.phase == "running" else len(build.log)
        for line in build.log[shown:whole].splitlines():
            show(line)
        shown = max(shown, whole)
        if build.phase == "done" and build.digest:
            return build.digest
        if build.phase != "running":
            raise LaunchError(_failure(name, build))
        if monotonic_seconds() - began > patience_seconds:
            raise LaunchError(
                f"build {name} did not end within {patience_seconds / 60:.0f} minutes; look at it in"
                " the cloud's console, and type the same command again when it is over"
            )
        time.sleep(poll_seconds)


def _failure(name: str, build: Build) -> str:
    lines = build.log.splitlines()[-_LAST_LINES:]
    last = "\n".join(f"  {line}" for line in lines)
    why = build.why or "nobody says why"
    if build.phase == "done":
        why = "it ended well, but the registry has no such image"
    told = f"; its log ends:\n{last}" if last else ", and left no log"
    return f"build {name} failed: {why}{told}"
