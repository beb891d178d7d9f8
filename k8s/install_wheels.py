"""Installs the wheels of wheels.txt, which fetch_wheels.sh has copied, into a folder with pip.

An init container of each pod runs this file in a public image without cloudgan. It needs only the standard library of
Python 3.8 and later, and pip, which verifies the hashes. Exit codes: 0; 75 if the disk is full or fails; else 1.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

FULL = 75


def pip_install(requirements, site):
    """Installs requirements with hashes into `site`, without an index; returns pip's exit code and errors."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--upgrade"]
    command += ["--disable-pip-version-check", "--no-cache-dir", "--root-user-action=ignore"]
    command += ["--no-index", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    command += ["--no-compile"]  # compiling doubles the time, and most modules are not imported
    command += ["--target", str(site), "--requirement", str(requirements)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment["PIP_CONFIG_FILE"] = os.devnull
    # pip unpacks into a temporary folder and moves the result: within one volume that copies nothing.
    with tempfile.TemporaryDirectory(dir=site) as unpacked:
        environment["TMPDIR"] = unpacked
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stderr.decode(errors="replace").strip()


def install_libraries(wheel, site):
    """Copies the shared libraries of a wheel into lib/, which pip leaves out with --target.

    MPICH's wheel has them among its data files. pip takes this folder for the one of Python modules
    (`_handle_target_dir` in pip/_internal/commands/install.py, version 23.2.1, read 2026-11-23).
    """
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            top, _, path = name.partition(".data/data/lib/")
            if path and not path.endswith("/") and "/" not in top and ".." not in path.split("/"):
                target = site / "lib" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)


def main():
    """Installs the wheels, writes the durations and prints one line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Installs wheels of the run's store.")
    for name in ("wheels", "folder", "site"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    options = parser.parse_args()
    began = time.time()
    lines = [line.split() for line in options.wheels.read_text(encoding="utf-8").splitlines()]
    files = {options.folder / sha256 / name: sha256 for name, sha256, _ in lines}
    requirements = options.folder / "requirements.txt"
    requirements.write_text("".join(f"{path} --hash=sha256:{files[path]}\n" for path in files))
    options.site.mkdir(parents=True, exist_ok=True)
    code, errors = pip_install(requirements, options.site)
    if code:
        hint = "remove a wheel with another hash from the store and deploy again"
        print(
            f"{errors}\ninstall_wheels: pip failed; {hint}; the image needs the plan's Python",
            file=sys.stderr,
        )
        return FULL if "No space left" in errors else 1
    for path in files:
        install_libraries(path, options.site)
    began_copy, copied = (
        (options.folder / name).stat().st_mtime for name in ("wanted.txt", "complete")
    )
    shutil.rmtree(options.folder)  # the disk of a pod is small
    values = {  # cloudgan/core/provenance.py reads them
        "time": dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "wheels": len(files),
        "bytes": sum(int(size) for *_, size in lines),
        "fetch_seconds": round(max(0, copied - began_copy), 3),
        "install_seconds": round(time.time() - began, 3),
    }
    (options.site / "cloudgan-wheels.json").write_text(json.dumps(values) + "\n", encoding="utf-8")
    seconds = "copied in {fetch_seconds} s, installed in {install_seconds} s".format(**values)
    print(f"{len(files)} wheels: {seconds}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as problem:
        print(f"install_wheels: {problem}", file=sys.stderr)
        sys.exit(FULL)
