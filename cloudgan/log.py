"""Sets logging up: short text for a terminal, JSON lines where a program reads them."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from cloudgan.core.settings import LogFormat

_ROOT = "cloudgan"


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message and, after an error, its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line of `record`."""
        line = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(
    log_format: LogFormat = "text",
    *,
    level: int = logging.WARNING,
    stream: TextIO | None = None,
) -> None:
    """Sends what `cloudgan` loggers say to `stream` (default: standard error).

    Calling it again replaces the earlier setting; other libraries' loggers are left alone, but one.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    text = logging.Formatter("cloudgan: %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if log_format == "json" else text)
    logger = logging.getLogger(_ROOT)
    for old in tuple(logger.handlers):
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    # Without a login it tells in twelve lines what our error tells in one.
    logging.getLogger("azure.identity").setLevel(logging.ERROR)
