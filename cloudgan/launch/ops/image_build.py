"""Container image builds by a cloud's build service: context, build and result."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core import assets
from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import LaunchError
from cloudgan.launch.provisioning.wheels import own_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloudgan.launch.clouds.image_builders import ImageBuilder
    from cloudgan.schema.image_order import Build, ImageBuildRequest, ImageKind


_POLL_SECONDS = 5.0
_PATIENCE_SECONDS = 5400.0
"""Longer than the clouds' build timeout of one hour plus queueing."""
_LAST_LINES = 20


def build_image(
    builder: ImageBuilder,
    order: ImageBuildRequest,
    archive: bytes,
    say: Callable[[str], None],
    show: Callable[[str], None],
    *,
    poll_seconds: float = _POLL_SECONDS,
    patience_seconds: float = _PATIENCE_SECONDS,
) -> str:
    """Builds an image and waits for it; Ctrl-C does not cancel the build.

    Args:
        builder: Of a cloud.
        order: Build request.
        archive: Build context in the cloud's archive format.
        say: Progress callback.
        show: Callback for each line of the build log.
        poll_seconds: Poll interval.
        patience_seconds: Timeout.

    Returns:
        The image's digest.

    Raises:
        LaunchError: The build failed (with its last log lines) or timed out.
    """
    for made in builder.prepare(order):
        say(f"made {made}")
    name = builder.start(order, archive)
    say(f"build {name} began")
    began, shown = monotonic_seconds(), 0
    while True:
        build = builder.poll(order, name)
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
    why = build.reason or "no reason reported"
    if build.phase == "done":
        why = "it succeeded, but the image is not in the registry"
    log_end = f"; end of its log:\n{last}" if last else "; no log"
    return f"build {name} failed: {why}{log_end}"


DOCKERFILE = "deploy/Dockerfile"
_LOCKS: Mapping[ImageKind, str] = {"cpu": "train", "gpu": "gpu", "tpu": "tpu"}
_EPOCH = (1980, 1, 1, 0, 0, 0)  # earliest date of a zip entry
_MODE = 0o644


class ImageContext(NamedTuple):
    """Build context: files by name, exactly those that deploy/Dockerfile needs."""

    files: Mapping[str, bytes]

    @property
    def sha256(self) -> str:
        """Hash of names and contents; archive bytes depend on the zlib version."""
        digest = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            digest.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
        return digest.hexdigest()

    def tar_gz(self) -> bytes:
        """Returns the tar.gz archive for Docker, Cloud Build and ACR Tasks."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, content in sorted(self.files.items()):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), _MODE
                archive.addfile(entry, io.BytesIO(content))
        return gzip.compress(packed.getvalue(), mtime=0)

    def zip(self) -> bytes:
        """Returns the zip archive for CodeBuild."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted(self.files.items()):
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
                entry.external_attr = _MODE << 16
                archive.writestr(entry, content)
        return packed.getvalue()


def image_context(kind: ImageKind) -> ImageContext:
    """Returns Dockerfile, lock files of an image kind, and the cloudgan wheel.

    Raises:
        ConfigError: cloudgan is not installed or its assets are missing.
    """
    names = (DOCKERFILE, f"requirements/{_LOCKS[kind]}.txt", "requirements/pod.txt")
    files = {name: assets.read_bytes(name) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        wheel = own_wheel(Path(folder))
        files[f"dist/{wheel.file_name}"] = (Path(folder) / wheel.file_name).read_bytes()
    return ImageContext(files)
