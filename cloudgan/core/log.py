"""Logging: short text for a terminal, JSON lines for programs."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

from cloudgan.core.settings import LogFormat

_ROOT = "cloudgan"


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message and, for an exception, its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the JSON line of `record`."""
        line = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(log_format: LogFormat = "text", *, stream: TextIO | None = None) -> None:
    """Sends messages of the `cloudgan` loggers to `stream` (default: standard error).

    A later call replaces the setting. Loggers of other libraries are unchanged, except azure.identity.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    text = logging.Formatter("cloudgan: %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if log_format == "json" else text)
    logger = logging.getLogger(_ROOT)
    for old in tuple(logger.handlers):
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    # It logs twelve lines for a missing login, which our own error reports in one.
    logging.getLogger("azure.identity").setLevel(logging.ERROR)
