"""The wheels a pod installs: cloudgan itself, and what it needs beside its image's TensorFlow."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import cloudgan
from cloudgan import assets
from cloudgan.core import settings
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.plan import Wheel
from cloudgan.core.whole_file import write_whole
from cloudgan.kubernetes.manifests import wheel_list

_NAME = "cloudgan"
_FROM_INSTALLATION = ("entry_points.txt", "licenses/LICENSE")
_WHEEL = "Wheel-Version: 1.0\nGenerator: cloudgan\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that a zip file can name
_READABLE = 0o100644 << 16
_MANYLINUX = re.compile(r"manylinux_2_(\d+)_(\w+)")
_OLDEST_GLIBC = 5
_NAMES_OF_GLIBC = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==\S+.*(?:\n +--hash=.*)*\n", re.MULTILINE)
GLIBC_OF_TPU = "manylinux_2_31_x86_64"
"""What the wheels of libtpu need, of October 2026; images of Python have glibc 2.41."""


def described(path: Path) -> Wheel:
    """Describes a file as a plan names it."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return Wheel(file_name=path.name, sha256=digest, bytes=len(content))


def object_name(wheel: Wheel) -> str:
    """Returns where pods look for a wheel in the store."""
    return f"wheels/{wheel.sha256}/{wheel.file_name}"


def cache_folder() -> Path:
    """Returns where this user's wheels for pods are kept."""
    return settings.data_folder() / "wheels"


def own_wheel(folder: Path) -> Wheel:
    """Packs the cloudgan that runs here; the same files make the same bytes, on every machine.

    Args:
        folder: Where to write it.

    Returns:
        The wheel, in `folder` under its file name.

    Raises:
        ConfigError: cloudgan is not installed, or without its assets.
        DataError: The folder cannot be written.
    """
    info = f"{_NAME}-{cloudgan.__version__}.dist-info"
    files = _package() | {f"{info}/{name}": told for name, told in _description().items()}
    record = "".join(
        f"{name},{_digest(files[name])},{len(files[name])}\n" for name in sorted(files)
    )
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / f"{_NAME}-{cloudgan.__version__}-py3-none-any.whl"
    with tempfile.TemporaryFile() as packed:
        # Stored as it is: what zlib makes differs from one version of it to the next.
        with zipfile.ZipFile(packed, "w") as archive:
            for name in sorted(files):
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.external_attr, entry.create_system = _READABLE, 3  # a Unix wrote it
                archive.writestr(entry, files[name])
        packed.seek(0)
        write_whole(path, packed.read())
    return described(path)


def _package() -> dict[str, bytes]:
    """What is imported, and the assets where an installation looks for them."""
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
            "cloudgan is imported here but not installed, so no wheel can be made of it; type:"
            " pip install --editable CHECKOUT"
        ) from error
    # An editable installation may be older than the checkout it leads to.
    told = (installed.read_text("METADATA") or "").replace("\r\n", "\n")
    metadata = re.sub(r"(?m)^Version: .*$", f"Version: {cloudgan.__version__}", told, count=1)
    found = {name: installed.read_text(name) for name in _FROM_INSTALLATION}
    kept = {name: text.encode() for name, text in found.items() if text}
    return kept | {"METADATA": metadata.encode(), "WHEEL": _WHEEL.encode()}


def _digest(content: bytes) -> str:
    raw = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return f"sha256={raw.rstrip(b'=').decode()}"


def dependency_wheels(
    lock_text: str,
    *,
    folder: Path,
    fetch: bool = True,
    python: str = "3.11",
    platform: str = "manylinux_2_28_x86_64",
) -> tuple[Wheel, ...]:
    """Gets the wheels of a lock for a pod's Python, whatever this machine is.

    Args:
        lock_text: Names, versions and hashes, as requirements/pod.txt has them.
        folder: Where they are kept; what is there and fits is not fetched again.
        fetch: Whether to fetch what is not there; else nothing is returned then.
        python: The pod's version of Python.
        platform: The newest kind of wheel that the pod's system takes.

    Returns:
        The wheels, sorted by name; each is in `folder` under its file name.

    Raises:
        ConfigError: They are not all there and pip cannot get them.
        DataError: The folder cannot be written.
    """
    asked = hashlib.sha256(f"{python} {platform}\n{lock_text}".encode()).hexdigest()
    list_file = folder / f"{asked[:16]}.txt"
    known = _kept(list_file, set(_HASH.findall(lock_text)))
    if known or not fetch:
        return known
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            _download(lock_text, python, platform, Path(fresh))
            paths = sorted(Path(fresh).glob("*.whl"))
            found = tuple(described(path.replace(folder / path.name)) for path in paths)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from error
    write_whole(list_file, wheel_list(found).encode())
    return found


def joined_lock(first: str, second: str) -> str:
    """Returns what two locks pin; what both pin stands once, as the first has it.

    Locks agree on versions, which a test of them makes sure of.
    """
    pinned = {found[1]: found[0] for text in (second, first) for found in _PINNED.finditer(text)}
    return "".join(pinned[name] for name in sorted(pinned))


def _kept(list_file: Path, allowed: set[str]) -> tuple[Wheel, ...]:
    """The wheels of an earlier time, if they are all there and still what the lock asks for."""
    try:
        lines = [line.split() for line in list_file.read_text(encoding="utf-8").splitlines()]
        found = tuple(described(list_file.parent / name) for name, _, _ in lines)
    except (OSError, ValueError):
        return ()
    return found if all(wheel.sha256 in allowed for wheel in found) else ()


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
    told = next((line[6:].strip() for line in lines if line.startswith("ERROR:")), done.stderr)
    raise ConfigError(
        f"pip could not get the wheels that a pod with Python {python} on {platform} needs: {told}"
        f"\nThey are fetched once from the index that pip is set up for, into {folder.parent}. Type the"
        " command again where there is a network, or give --image an image with cloudgan in it"
    )


def _platforms(newest: str) -> tuple[str, ...]:
    """Names all older systems whose wheels run too: pip takes a platform at its word."""
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
