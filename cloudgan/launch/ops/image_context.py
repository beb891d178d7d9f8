"""Build context of the pods' container image: a folder that any image builder takes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from cloudgan.core import assets
from cloudgan.core.atomic_file import atomic_folder
from cloudgan.core.errors import ConfigError
from cloudgan.launch.provisioning.wheels import own_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping

ImageKind = Literal["cpu", "gpu", "tpu"]
_LOCKS: Final[Mapping[ImageKind, str]] = {"cpu": "train", "gpu": "gpu", "tpu": "tpu"}
_SUMS: Final = "SHA256SUMS"


def write_context(folder: Path, kind: ImageKind) -> None:
    """Writes deploy/Dockerfile for an image kind, its lock files and the cloudgan wheel.

    The Dockerfile is at the root and its argument KIND has the kind as the default, because
    `gcloud builds submit --tag` takes neither another place nor build arguments
    (https://cloud.google.com/sdk/gcloud/reference/builds/submit, read 2026-11-25).

    Args:
        folder: Is replaced if it holds exactly what an earlier call wrote.
        kind: Kind of accelerator.

    Raises:
        ConfigError: The folder holds something else or cannot be written, or cloudgan is not
            installed.
    """
    folder = Path(os.path.realpath(folder))  # resolve() raises RuntimeError for a loop of links
    if folder.exists() and not _may_be_replaced(folder):
        raise ConfigError(
            f"{folder} exists and is not an unchanged build context of `cloudgan image`; give another"
            " folder, or remove it"
        )
    with atomic_folder(folder, error_class=ConfigError) as beside:
        for name in (f"requirements/{_LOCKS[kind]}.txt", "requirements/pod.txt"):
            (beside / name).parent.mkdir(exist_ok=True)
            (beside / name).write_bytes(assets.read_bytes(name))
        text = assets.read_text("deploy/Dockerfile").replace("ARG KIND=cpu", f"ARG KIND={kind}")
        (beside / "Dockerfile").write_text(text, encoding="utf-8")
        own_wheel(beside / "dist")
        (beside / _SUMS).write_text(_sums(beside), encoding="utf-8")


def _may_be_replaced(folder: Path) -> bool:
    try:
        if not any(folder.iterdir()):
            return True
        return (folder / _SUMS).read_text(encoding="utf-8") == _sums(folder)
    except (OSError, UnicodeDecodeError):  # a file, or a folder with what cannot be read
        return False


def _sums(folder: Path) -> str:
    """Returns the hashes of a folder's files, as sha256sum prints them."""
    files = sorted(path for path in folder.rglob("*") if not path.is_dir() and path.name != _SUMS)
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in files
    )
