"""Imports TensorFlow without its start-up messages."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.core import settings

if TYPE_CHECKING:
    from typing import IO


def import_tensorflow() -> None:
    """Imports TensorFlow and Keras; shows their messages on standard error only if the import fails.

    Their libraries write to file descriptor 2 before any log level applies.

    Raises:
        ModuleNotFoundError: TensorFlow is not installed.
    """
    if "tensorflow" in sys.modules:
        return
    settings.quiet_tensorflow()
    sys.stderr.flush()
    kept = os.dup(2)
    with _temporary() as output:
        os.dup2(output.fileno(), 2)
        try:
            import_module("tensorflow")
            import_module("keras")
        except Exception:
            output.seek(0)
            os.write(kept, output.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _temporary() -> IO[bytes]:
    """Returns a file for the messages; where no disk has space for one, they are lost."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return Path(os.devnull).open("w+b")
