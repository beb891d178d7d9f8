"""Numbers as people read them."""

from __future__ import annotations

import math

_LEADING_ONE = 2.0
_MOST_DECIMALS = 6
_PLAIN_BELOW = 9999.5  # rounded to four digits it would be 1e+04
_POWERS_FROM = 1e6
_POWERS_BELOW = 1e-4
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number_text(value: float) -> str:
    """Four digits, thousands parted by commas; integers as they are."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if abs(value) < _PLAIN_BELOW else f"{value:,.0f}"


def error_text(value: float, error: float | None) -> str:
    """A value and its standard error, both to the error's first digit: ``0.983 ± 0.004``.

    Two digits where the first is 1; four digits of the value where nobody knows the error.
    """
    if error is None or not 0 < error < math.inf:
        return number_text(float(value))
    power = math.floor(math.log10(error))
    decimals = max(0, -power + (error / 10.0**power < _LEADING_ONE))
    if decimals > _MOST_DECIMALS:
        return f"{number_text(float(value))} ± {error:.1g}"
    return f"{value:z,.{decimals}f} ± {error:,.{decimals}f}"


def tick_text(value: float) -> str:
    """A round number of an axis: ``0.02``, ``1,500``, ``2·10⁶``."""
    size = abs(value)
    if size == 0 or _POWERS_BELOW <= size < _POWERS_FROM:
        return f"{value:,.10g}"
    power = math.floor(math.log10(size) + 1e-9)
    factor = value / 10.0**power
    told = "" if math.isclose(factor, 1) else f"{factor:.4g}·"
    return f"{told}10{str(power).translate(_SUPERSCRIPT)}"
