"""What training did: an assessment beside that of the same network before it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cloudgan.validation.assessment import Measure
from cloudgan.validation.known_measures import IDEALS

if TYPE_CHECKING:
    from cloudgan.validation.assessment import Assessment

_LEFT = "profile_z_left"


def with_learning(trained: Assessment, untrained: Assessment) -> Assessment:
    """Returns `trained` with one measure more: the share of the untrained profile's error that is left.

    Of the core of the longitudinal profile, because an untrained network is wrong there whatever its
    output is scaled to. It has no floor: where nothing was learned, nothing was, however few the
    showers.
    """
    after, before = (_core(each) for each in (trained, untrained))
    value = error = None
    if after.value is not None and before.value:
        value = after.value / before.value
        parts = [m.error / m.value for m in (after, before) if m.error and m.value]
        error = value * math.hypot(*parts)
    left = Measure(name=_LEFT, value=value, error=error, ideal=IDEALS[_LEFT])
    return trained.model_copy(update={"measures": (*trained.measures, left)})


def _core(assessment: Assessment) -> Measure:
    return next(m for m in assessment.all("profile_z") if m.where == "core")
