"""Images: what a container's image is on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulators.kubernetes.store import Store


class Image(NamedTuple):
    """An image that holds nothing but names for programs of this machine."""

    programs: Mapping[str, str] = {}
    """The first word of a command -> the program that runs; others are looked up in PATH."""
    env: Mapping[str, str] = {}
    """What the image sets; a manifest may override it."""
    entrypoint: tuple[str, ...] = ()
    appended: Mapping[str, str] = {}
    """Paths that come after those of the manifest, such as PYTHONPATH to the tested sources."""
    overridden: Mapping[str, str] = {}
    """What this machine sets in spite of the manifest."""
    pull_secret: str = ""
    """Name of the secret that a private registry requires of pods; empty: it requires none."""


def python_image(*paths: Path | str, **env: str) -> Image:
    """Returns an image whose `python` is the interpreter that runs the tests, without a GPU.

    `paths` are searched for modules after the manifest's PYTHONPATH. It also replaces TensorFlow's
    public image for GPUs, whose TensorFlow registers none: it has cuDNN 8, and TensorFlow has needed
    cuDNN 9 since 2.18 (https://github.com/tensorflow/build/issues/221, read 2026-11-22).
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    programs = {"python": sys.executable, "python3": sys.executable}
    appended = {"PYTHONPATH": os.pathsep.join(map(str, paths))} if paths else {}
    variables = {"PATH": path, "CUDA_VISIBLE_DEVICES": "-1", **env}
    return Image(programs, variables, ("python3",), appended)


def with_gpus(image: Image) -> Image:
    """Returns an image with libraries that fit the GPUs; they are processors of this machine.

    TensorFlow counts no processor as a GPU, so the planned number is taken away.
    """
    return image._replace(overridden={**image.overridden, "CLOUDGAN_ACCELERATORS": "0"})


def find(images: Mapping[str, Image], reference: str) -> Image | None:
    """Finds an image by its reference, with or without digest and registry; `*` is any."""
    without_digest = reference.partition("@")[0]
    for name in (reference, without_digest, without_digest.removeprefix("docker.io/"), "*"):
        if name in images:
            return images[name]
    return None


def may_pull(image: Image, pod: Mapping[str, Any], store: Store) -> bool:
    """Whether a pod names the secret that an image's registry asks for, and the secret exists."""
    named = [one["name"] for one in pod["spec"].get("imagePullSecrets") or []]
    wanted = image.pull_secret
    namespace = pod["metadata"]["namespace"]
    return not wanted or (wanted in named and bool(store.find("secrets", namespace, wanted)))
