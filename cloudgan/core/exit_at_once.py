"""The end of a process without its destructors, with the message, the JSON and the terminal that a normal end leaves.

Imports a few modules of the standard library: Ctrl-C is handled before the rest of the program is imported.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import NoReturn

_ERASE_LINE_AND_SHOW_CURSOR = b"\r\x1b[2K\x1b[?25h"


class LiveLine:
    """Whether a terminal shows a line of progress, which hides the cursor."""

    is_shown = False


def exit_at_once(message: str, code: int) -> NoReturn:
    """Ends the process, also from a signal handler or another thread."""
    with suppress(OSError):
        line = f"cloudgan: {message}\n".encode()
        os.write(2, _ERASE_LINE_AND_SHOW_CURSOR * LiveLine.is_shown + line)
    with suppress(OSError):
        if "--json" in sys.argv:
            os.write(1, json.dumps({"error": message, "exit_code": code}).encode() + b"\n")
    os._exit(code)
