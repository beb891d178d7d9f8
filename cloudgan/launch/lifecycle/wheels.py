"""Wheels that a pod installs: cloudgan and its dependencies beside the image's TensorFlow."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from packaging.markers import Marker

import cloudgan
from cloudgan.core import assets, settings
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.launch.kubernetes.manifests import wheel_list
from cloudgan.schema.plan import Wheel

_NAME, _PYTHON = "cloudgan", "3.11"
_MARKER = re.compile(r"(?m) ; ([^\\\n]+?)(?= *\\$)")
_FROM_INSTALLATION = ("entry_points.txt", "licenses/LICENSE")
_WHEEL = "Wheel-Version: 1.0\nGenerator: cloudgan\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # earliest date of a zip entry
_READABLE = 0o100644 << 16
_MANYLINUX = re.compile(r"manylinux_2_(\d+)_(\w+)")
_OLDEST_GLIBC = 5
_NAMES_OF_GLIBC = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
GLIBC_OF_TPU = "manylinux_2_31_x86_64"
"""Platform of the libtpu wheels, October 2026; Python images have glibc 2.41."""


def describe_wheel(path: Path) -> Wheel:
    """Returns name, hash and size of a wheel file."""
    with path.open("rb") as file:  # those for GPUs have hundreds of megabytes
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Wheel(file_name=path.name, sha256=digest, bytes=path.stat().st_size)


def object_name(wheel: Wheel) -> str:
    """Returns the object name of a wheel in the store."""
    return f"wheels/{wheel.sha256}/{wheel.file_name}"


def cache_folder() -> Path:
    """Returns the user's cache folder of wheels."""
    return settings.data_folder() / "wheels"


def own_wheel(folder: Path) -> Wheel:
    """Builds the wheel of this cloudgan in a folder; equal files give equal bytes on every machine."""
    info = f"{_NAME}-{cloudgan.__version__}.dist-info"
    files = _package() | {f"{info}/{name}": content for name, content in _description().items()}
    record = []
    for name, content in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(content)}\n")
    files[f"{info}/RECORD"] = f"{''.join(record)}{info}/RECORD,,\n".encode()
    path = folder / f"{_NAME}-{cloudgan.__version__}-py3-none-any.whl"
    with tempfile.TemporaryFile() as packed:
        # Uncompressed: the output of zlib depends on its version.
        with zipfile.ZipFile(packed, "w") as archive:
            for name in sorted(files):
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.external_attr, entry.create_system = _READABLE, 3  # Unix
                archive.writestr(entry, files[name])
        packed.seek(0)
        write_atomic(path, packed.read())
    return describe_wheel(path)


def _package() -> dict[str, bytes]:
    """The modules and assets of the package by path."""
    top = Path(cloudgan.__file__).parent
    found = {
        f"{_NAME}/{path.relative_to(top).as_posix()}": path.read_bytes()
        for path in top.rglob("*")
        if path.is_file()
        and not {"__pycache__", "_assets"} & set(path.relative_to(top).parts)
        and not path.name.startswith(".")
    }
    return found | {f"{_NAME}/_assets/{name}": assets.read_bytes(name) for name in assets.names()}


def _description() -> dict[str, bytes]:
    try:
        installed = importlib.metadata.distribution(_NAME)
    except importlib.metadata.PackageNotFoundError as error:
        raise ConfigError(
            "cloudgan is not installed, so its wheel cannot be built; run: pip install --editable"
            " CHECKOUT"
        ) from error
    found = {name: installed.read_text(name) for name in ("METADATA", *_FROM_INSTALLATION)}
    kept = {name: text.replace("\r\n", "\n").encode() for name, text in found.items() if text}
    return kept | {"WHEEL": _WHEEL.encode()}


def without_markers(lock_text: str) -> str:
    """Returns a lock as CPython on Linux installs it: pip evaluates markers for its own machine."""
    pod = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{_PYTHON}.0",
        "python_version": _PYTHON,
        "sys_platform": "linux",
    }
    found = []
    for block in re.split(r"(?m)^(?=\w)", lock_text):
        marker = _MARKER.search(block)
        if marker is None or Marker(marker[1]).evaluate(pod):
            found.append(_MARKER.sub("", block))
    return "".join(found)


def dependency_wheels(
    lock_text: str,
    *,
    folder: Path,
    fetch: bool = True,
    python: str = _PYTHON,
    platform: str = "manylinux_2_28_x86_64",
) -> tuple[Wheel, ...]:
    """Returns the wheels of a lock file for a pod's Python and platform, sorted; they are in `folder`.

    Args:
        lock_text: Names, versions and hashes, as `core.lock` returns them.
        fetch: Whether to download missing wheels; otherwise the result is then empty.
        python: The pod's Python version.
        platform: Newest platform tag that the pod supports.
    """
    lock_text = without_markers(lock_text)
    request = hashlib.sha256(f"{python} {platform}\n{lock_text}".encode()).hexdigest()
    list_file = folder / f"{request[:16]}.txt"
    known = _kept(list_file, set(_HASH.findall(lock_text)))
    if known or not fetch:
        return known
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            _download(lock_text, python, platform, Path(fresh))
            paths = sorted(Path(fresh).glob("*.whl"))
            found = tuple(describe_wheel(path.replace(folder / path.name)) for path in paths)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from error
    _list(list_file, found)
    return found


def _kept(list_file: Path, allowed: set[str]) -> tuple[Wheel, ...]:
    """The cached wheels if they are complete and match the lock.

    A file that changed since it was listed is read again: its hash is of gigabytes, its identity is not.
    """
    found, is_current = [], True
    try:
        for line in list_file.read_text(encoding="utf-8").splitlines():
            name, sha256, size, identity = line.split()
            path = list_file.parent / name
            is_listed = identity == _identity(path)
            is_current &= is_listed
            listed = Wheel(file_name=name, sha256=sha256, bytes=int(size))
            found.append(listed if is_listed else describe_wheel(path))
    except (OSError, ValueError):
        return ()
    if not all(wheel.sha256 in allowed for wheel in found):
        return ()
    if not is_current:
        _list(list_file, found)
    return tuple(found)


def _identity(path: Path) -> str:
    """Changes whenever the content of a file does."""
    known = path.stat()
    return f"{known.st_ino}-{known.st_size}-{known.st_mtime_ns}-{known.st_ctime_ns}"


def _list(list_file: Path, wheels: Iterable[Wheel]) -> None:
    lines = (
        f"{wheel_list((wheel,)).rstrip()} {_identity(list_file.parent / wheel.file_name)}\n"
        for wheel in wheels
    )
    write_atomic(list_file, "".join(lines).encode())


def _download(lock_text: str, python: str, platform: str, folder: Path) -> None:
    lock = folder / "lock.txt"
    lock.write_text(lock_text, encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    command += ["--require-hashes", "--implementation=cp", f"--python-version={python}"]
    command += [f"--platform={name}" for name in _platforms(platform)]
    command += ["--dest", str(folder), "--requirement", str(lock)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode == 0:
        return
    lines = done.stderr.splitlines()
    reason = next((line[6:].strip() for line in lines if line.startswith("ERROR:")), done.stderr)
    raise ConfigError(
        f"pip cannot download the wheels for Python {python} on {platform}: {reason}\nThey are downloaded"
        f" once from pip's configured index into {folder.parent}. Rerun the command with network"
        " access, or give --image an image that contains cloudgan"
    )


def _platforms(newest: str) -> tuple[str, ...]:
    """Returns the platform tag and all older compatible ones; pip matches tags literally."""
    match = _MANYLINUX.fullmatch(newest)
    if not match:
        return (newest,)
    minors = range(int(match[1]), _OLDEST_GLIBC - 1, -1)
    names = (
        name
        for minor in minors
        for name in (f"manylinux_2_{minor}", _NAMES_OF_GLIBC.get(minor))
        if name
    )
    return tuple(f"{name}_{match[2]}" for name in names)
