"""Imports TensorFlow without its chatter."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module


def import_tensorflow() -> None:
    """Imports TensorFlow and Keras; what they say about missing GPUs is shown only if they fail.

    Its libraries write to file descriptor 2 before any log level counts.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    if "tensorflow" in sys.modules:
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            import_module("tensorflow")
            import_module("keras")
        except BaseException:
            said.seek(0)
            os.write(kept, said.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
