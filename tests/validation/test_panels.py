from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from cloudgan.validation.observables import observe
from cloudgan.validation.overlap import OverlapRegion
from cloudgan.validation.panels import (
    Curve,
    Panel,
    draw_panels,
    integer_edges,
    legend_columns,
    mean_rows,
    means,
    shared_edges,
    shares,
    widths_percent,
)
from cloudgan.validation.samples import Samples

EDGES = np.array([0.0, 200.0, 300.0, 400.0, 1000.0])


@pytest.fixture(scope="module")
def true(reference):
    return observe(reference)


def panel(**changes):
    return Panel(shares(lambda s: s.hits, EDGES), EDGES, "hits", "share", **changes)


def pair(generated, reference, *names, **others):
    overlap = OverlapRegion(generated, reference, matched=False, angle_known=True, notes=())
    return Samples(overlap, *names, **others)


def words(svg):
    return [element.text for element in ET.fromstring(svg).iter("text")]  # noqa: S314 (our own)


def test_a_ratio_has_the_errors_of_both_and_is_unknown_where_the_reference_is_empty():
    ours = Curve(np.array([2.0, 1.0, 3.0]), np.array([0.2, 0.1, 0.0]))
    theirs = Curve(np.array([1.0, 2.0, 0.0]), np.array([0.1, 0.0, 0.0]))
    ratio = panel().against(ours, theirs)
    assert ratio.values == pytest.approx([2.0, 0.5, np.nan], nan_ok=True)
    assert ratio.errors[:2] == pytest.approx([np.hypot(0.2, 2 * 0.1), 0.05])
    deviation = panel(compare="difference").against(ours, theirs)
    assert deviation.values == pytest.approx([1.0, -1.0, 3.0])
    assert deviation.errors == pytest.approx([np.hypot(0.2, 0.1), 0.1, 0.0])


def test_the_baseline_of_a_ratio_is_what_counting_gives_two_samples_of_this_size(true):
    samples = pair(true, true)
    counts, _ = np.histogram(true.hits, EDGES)
    baseline = panel().baseline(samples)
    assert counts.min() > 40
    # A ratio n1 / n2 of two equal counts spreads by sqrt(2 / n).
    assert baseline == pytest.approx(np.sqrt(2 / counts), rel=0.7)
    shares_of_all = counts / len(true)
    assert panel(compare="difference").baseline(samples) == pytest.approx(baseline * shares_of_all)


@pytest.mark.parametrize(
    ("sizes", "matched"),
    [((600, 600), False), ((600, 200), False), ((200, 600), False), ((600, 600), True)],
)
def test_the_baseline_is_how_much_two_samples_of_monte_carlo_of_the_compared_sizes_differ(
    true, sizes, matched
):
    random = np.random.default_rng(5)
    edges = np.linspace(-1.5, 1.5, 11)
    shown = Panel(shares(lambda s: s.hits, edges), edges, "x", "y", compare="difference")
    scatter, band = [], []
    for seed in range(20):
        ours, theirs = (replace(true[:n], hits=random.normal(size=n)) for n in sizes)
        overlap = OverlapRegion(ours, theirs, matched=matched, angle_known=True, notes=())
        scatter.append(shown.measure(ours).values - shown.measure(theirs).values)
        band.append(shown.baseline(Samples(overlap, seed=seed)))
    both = [np.sqrt(np.square(each).mean()) for each in (band, scatter)]
    assert both[0] == pytest.approx(both[1], rel=0.1)


def test_an_empty_bin_of_the_reference_has_no_baseline_and_is_drawn(true):
    few = replace(true, hits=np.minimum(true.hits, 250.0))
    samples = pair(true, few)
    assert np.isnan(panel().baseline(samples)[2:]).all()
    assert "hits" in words(draw_panels("A", [panel()], samples))


@pytest.mark.parametrize("log", [False, True])
def test_panels_name_axes_samples_and_the_baseline(true, log):
    svg = draw_panels(
        "A", [panel(log_y=log)] * 2, pair(true, true, "b.h5", "mc.h5", untrained=true)
    )
    said = words(svg)
    assert said.count("hits") == said.count("share") == said.count("ratio to MC") == 2
    assert {"mc.h5", "b.h5", "untrained", "MC-MC baseline"} <= set(said)
    assert said.count("mc.h5") == 1


def test_the_lower_axis_is_as_narrow_as_the_sample_under_test_allows(true):
    near = words(draw_panels("A", [panel()], pair(true, true)))
    far = replace(true, hits=true.hits * 0.3)
    assert "1.5" not in near
    assert {"0.5", "1.0", "1.5"} <= set(words(draw_panels("A", [panel()], pair(far, true))))


def test_points_beyond_the_lower_axis_get_an_arrow(true):
    flat = Curve(np.array([1.0, 1.0, 1.0, 1.0]), np.zeros(4))
    peak = Curve(np.array([1.0, 9.0, 1.0, 1.0]), np.zeros(4))
    curves = {id(true): flat}
    shown = Panel(lambda s: curves.get(id(s), flat), EDGES, "x", "y")
    plain = draw_panels("A", [shown], pair(true, true))
    other = replace(true)
    curves[id(other)] = peak
    assert len(marks(draw_panels("A", [shown], pair(other, true)))) > len(marks(plain))


def marks(svg):
    return {element.get("id") for element in ET.fromstring(svg).iter("path")} - {None}  # noqa: S314


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["held-out Monte Carlo", "untrained", "generator, step 123", "MC-MC baseline"], 4),
        (["a long name of a file with showers.h5"] * 3, 2),
        (["x" * 200, "y"], 1),
    ],
)
def test_a_legend_has_as_many_columns_as_fit(names, columns):
    assert legend_columns(names) == columns


def with_hits(sample, values):
    return replace(sample[slice(0, len(values))], hits=np.array(values, float))


def hits(sample):
    return sample.hits


def energy(sample):
    return sample.energy_gev


def test_shares_count_each_shower_once_and_the_unknown_ones_nowhere(true):
    curve = shares(hits, np.array([0.0, 2.0, 4.0]))(with_hits(true, [1, 1, 1, 3, np.nan, 9]))
    assert curve.values == pytest.approx([3 / 6, 1 / 6])
    assert curve.errors == pytest.approx([3**0.5 / 6, 1 / 6])


def test_means_and_widths_are_those_of_each_bin_with_the_errors_of_its_size(true):
    few = replace(with_hits(true, [1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60]),
                  energy_gev=np.array([10.0] * 6 + [30.0] * 6))  # fmt: skip
    edges = np.array([0.0, 20.0, 30.0])
    mean, width = means(energy, hits, edges)(few), widths_percent(energy, hits, edges)(few)
    spread = np.std([1, 2, 3, 4, 5, 6])
    assert mean.values == pytest.approx([3.5, 35.0])
    assert mean.errors == pytest.approx([spread / 6**0.5, 10 * spread / 6**0.5])
    assert width.values == pytest.approx([100 * spread / 3.5] * 2)
    assert width.errors == pytest.approx([100 * spread / 3.5 / 12**0.5] * 2)
    # A bin with few showers is unknown.
    assert np.isnan(means(energy, hits, edges)(few[slice(0, 4)]).values).all()


def test_profiles_are_means_over_showers(true):
    curve = mean_rows(lambda s: s.profile_z_gev, 1000.0)(true)
    assert curve.values == pytest.approx(1000 * true.profile_z_gev.mean(0), rel=1e-5)
    assert curve.errors.max() < curve.values.max() / 20


def test_edges_hold_nearly_all_of_both_samples_and_bins_grow_with_their_size():
    one, other = np.linspace(0, 1, 200), np.linspace(2, 3, 200)
    edges = shared_edges((one, other))
    assert edges[0] == pytest.approx(0, abs=0.01)
    assert edges[-1] == pytest.approx(3, abs=0.01)
    assert len(shared_edges((one, np.linspace(0, 1, 20000)))) == len(edges) < 20
    assert len(shared_edges((np.linspace(0, 1, 20000),))) == 41


@pytest.mark.parametrize("values", [np.full(50, 7.0), np.zeros(50), np.full(50, np.nan)])
def test_edges_of_constant_values_still_ascend(values):
    assert (np.diff(shared_edges((values,))) > 0).all()


def test_edges_of_whole_numbers_lie_between_them():
    edges = integer_edges((np.arange(3, 12).repeat(30).astype(float),))
    assert (edges[0], edges[-1]) == (2.5, 11.5)
    assert set(np.diff(edges)) == {1.0}
    assert set(np.diff(integer_edges((np.arange(1000.0),)))) == {50.0}
