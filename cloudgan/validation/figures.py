"""Every figure of a validation, in the order in which a physicist reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.validation.plot_angle import angle_figures
from cloudgan.validation.plot_cells import cell_figures
from cloudgan.validation.plot_correlations import correlation_figures
from cloudgan.validation.plot_distances import distance_figures
from cloudgan.validation.plot_profiles import profile_figures
from cloudgan.validation.plot_response import response_figures
from cloudgan.validation.plot_shapes import shape_figures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.validation.assessment import Assessment
    from cloudgan.validation.figure import Figure
    from cloudgan.validation.plot_samples import Samples


def figures(samples: Samples, assessment: Assessment) -> Iterator[Figure]:
    """Yields all figures; those of one family follow each other.

    Args:
        samples: What was compared: the part of both samples where both have showers.
        assessment: What was measured on them.
    """
    yield from response_figures(samples)
    yield from profile_figures(samples)
    yield from shape_figures(samples)
    yield from cell_figures(samples)
    yield from angle_figures(samples)
    yield from correlation_figures(samples)
    yield from distance_figures(assessment)
