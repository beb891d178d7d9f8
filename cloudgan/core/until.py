"""When a generator is good enough, as people type it: ``metric<0.15``."""

from __future__ import annotations

import math
import operator
import re
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Mapping

METRIC = "metric"
NUMBERS = (METRIC, "response", "profile_z", "hits", "angle", "separation")
"""What is measured after an epoch; `cloudgan.validation.quality` says what each of them is."""

_SIGNS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONDITION = re.compile(r"\s*(?P<name>[^\s<>=!]*)\s*(?P<sign>[<>=!]+)\s*(?P<bound>\S*)\s*")


class Until(NamedTuple):
    """A number's name and the bound that it must pass."""

    name: str
    sign: str
    bound: float

    def __str__(self) -> str:
        return f"{self.name}{self.sign}{self.bound:g}"

    def holds(self, numbers: Mapping[str, float]) -> bool:
        """Whether `numbers` pass; one that is missing, or no number, does not."""
        return bool(_SIGNS[self.sign](numbers.get(self.name, math.nan), self.bound))

    def is_better(self, one: float, other: float) -> bool:
        """Whether `one` is further on the good side than `other`; what is no number never is."""
        if math.isnan(one) or math.isnan(other):
            return math.isnan(other) and not math.isnan(one)
        return one < other if self.sign.startswith("<") else one > other


BY_METRIC = Until(METRIC, "<", 0.0)
"""How generators are ranked where nobody asked for anything else: the smallest metric is best."""


def parse_until(text: str) -> Until:
    """Reads a condition.

    Raises:
        ConfigError: It is none; says what it looks like.
        UnknownNameError: It names no number that is measured.
    """
    found = _CONDITION.fullmatch(text)
    if found is None or found["sign"] not in _SIGNS or not found["bound"]:
        raise ConfigError(
            f"--until={text!r}: expected a name, one of {' '.join(_SIGNS)}, and a number, such as"
            f' --until="{METRIC}<0.15". Names: {", ".join(NUMBERS)}'
        )
    if found["name"] not in NUMBERS:
        raise UnknownNameError("number in --until", found["name"], NUMBERS)
    return Until(found["name"], found["sign"], _bound(text, found["bound"]))


def _bound(text: str, written: str) -> float:
    try:
        bound = float(written)
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise ConfigError(f"--until={text!r}: {written!r} is no number")
    return bound
