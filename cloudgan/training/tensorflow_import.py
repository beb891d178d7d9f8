"""Imports TensorFlow without its start-up messages; checks that what a training needs is installed."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from cloudgan.core import cuda_libraries, settings
from cloudgan.schema.training_config import EngineName

_UNUSED = ("googleapiclient", "matplotlib", "sklearn")
"""TensorFlow and Keras import them, where they are installed, for parts that cloudgan does not use: over
one second, with `scipy.sparse`, which JAX needs."""
_UNUSED_WITHOUT_JAX = ("jax", "scipy.sparse")


def import_tensorflow() -> None:
    """Imports TensorFlow and Keras; shows their messages on standard error only if the import fails.

    Their libraries write to file descriptor 2 before any log level applies.
    """
    if "tensorflow" in sys.modules:
        return
    settings.quiet_tensorflow()
    sys.stderr.flush()
    kept = os.dup(2)
    # Hundreds of thousands of objects that stay: searching them for garbage takes a fifth of the import.
    collects = gc.isenabled()
    gc.disable()
    unused = [name for name in _unused() if name not in sys.modules]
    for name in unused:  # None: an import finds it "not installed"
        sys.modules[name] = None  # type: ignore[assignment]
    with _temporary() as output:
        os.dup2(output.fileno(), 2)
        try:
            cuda_libraries.preload()
            import_module("tensorflow")
            import_module("keras")
        except Exception:
            output.seek(0)
            os.write(kept, output.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            for name in unused:
                del sys.modules[name]
            if collects:
                gc.freeze()
                gc.enable()


def _unused() -> tuple[str, ...]:
    if not _is_program():
        return ()
    return _UNUSED if settings.variable("KERAS_BACKEND") == "jax" else _UNUSED + _UNUSED_WITHOUT_JAX


def import_engine() -> None:
    """Imports what computes trained networks: TensorFlow, or JAX where only that is installed."""
    if find_spec("tensorflow") is None and find_spec("jax") is not None:
        settings.set_for_jax(threads=None)
    else:
        import_tensorflow()


def require_package(package: str | None, name: str | None = None) -> None:
    """Checks that a package is installed, without the import; call it before something is written."""
    if package and find_spec(package) is None:
        raise ModuleNotFoundError(f"no package {package}", name=name or package)


def require_tensorflow() -> None:
    """Checks that TensorFlow is installed, as `require_package` does."""
    require_package("tensorflow")


def require_engine(engine: EngineName) -> None:
    """Checks that the engine of a training is installed, as `require_package` does."""
    for package in ("tensorflow",) if engine == "tensorflow" else ("jax", "jaxlib"):
        require_package(package, engine)


def _is_program() -> bool:
    """Whether this process is `cloudgan`; a program that uses the Python API may need all of Keras."""
    return Path(sys.argv[0]).name == "cloudgan" or Path(sys.argv[0]).parent.name == "cloudgan"


def _temporary() -> IO[bytes]:
    """Returns a file for the messages; where no disk has space for one, they are lost."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return Path(os.devnull).open("w+b")
