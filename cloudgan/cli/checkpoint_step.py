"""Which checkpoint of a run, as `--step` names it: a number, or the best one."""

from __future__ import annotations

from typing import Literal

from cloudgan.core.errors import ConfigError

Step = int | Literal["best"] | None
"""None is the newest."""


def parse_step(text: str | None) -> Step:
    """Reads `--step`.

    Raises:
        ConfigError: It is neither a whole number nor ``best``.
    """
    if text is None or text == "best":
        return "best" if text else None
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(f"--step={text}: give the number of a step, or best; default: the newest")
    return int(text)
