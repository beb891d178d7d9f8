"""What a builder gets: exactly what deploy/Dockerfile needs, from a checkout and elsewhere alike."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cloudgan import assets
from cloudgan.launching.wheels import own_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.image_order import ImageKind

DOCKERFILE = "deploy/Dockerfile"
_LOCKS: Mapping[ImageKind, str] = {"cpu": "train", "gpu": "gpu", "tpu": "tpu"}
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that a zip file can name
_MODE = 0o644


class ImageContext(NamedTuple):
    """Files by name."""

    files: Mapping[str, bytes]

    @property
    def digits(self) -> str:
        """Of all names and contents; archives of the same differ from one zlib to the next."""
        told = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            told.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
        return told.hexdigest()

    def tar_gz(self) -> bytes:
        """Returns it as Docker, Cloud Build and ACR Tasks take it."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, content in sorted(self.files.items()):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), _MODE
                archive.addfile(entry, io.BytesIO(content))
        return gzip.compress(packed.getvalue(), mtime=0)

    def zip(self) -> bytes:
        """Returns it as CodeBuild takes it."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted(self.files.items()):
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
                entry.external_attr = _MODE << 16
                archive.writestr(entry, content)
        return packed.getvalue()


def image_context(kind: ImageKind) -> ImageContext:
    """Collects the Dockerfile, the locks of a kind of accelerator, and this program as a wheel.

    Raises:
        ConfigError: cloudgan is not installed, or without its assets.
    """
    names = (DOCKERFILE, f"requirements/{_LOCKS[kind]}.txt", "requirements/pod.txt")
    files = {name: assets.read_bytes(name) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        wheel = own_wheel(Path(folder))
        files[f"dist/{wheel.file_name}"] = (Path(folder) / wheel.file_name).read_bytes()
    return ImageContext(files)
