from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from itertools import groupby
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from cloudgan.data.showers import join_showers
from cloudgan.simulation.gflash import simulate
from cloudgan.validation.assessment import Assessment, Measure, Sample
from cloudgan.validation.comparisons import (
    correlation_figures,
    correlations,
    distance_figures,
)
from cloudgan.validation.figures import (
    family_figures,
    figures,
)
from cloudgan.validation.observables import high_level, observe
from cloudgan.validation.overlap import OverlapRegion
from cloudgan.validation.samples import Samples, pick_pairs

LABELS = {
    "response-energy": {
        "energy of the primary (GeV)", "mean Esum/E (%)", "resolution (% of mean)", "ratio to MC",
    },
    "response-angle": {"requested angle (degrees)", "mean Esum/E (%)", "resolution (% of mean)"},
    "response-shares": {"Esum/E (%), 10-40 GeV", "Esum/E (%), 70-100 GeV", "share of all showers"},
    "profiles": {"layer", "y (mm)", "x (mm)", "E per layer (MeV/GeV)", "E per column (MeV/GeV)"},
    "profiles-log": {"layer", "y (mm)", "x (mm)", "E per layer (MeV/GeV)", "E per column (MeV/GeV)"},
    "showers-depth": {"layer", "g.h5", "Geant4", "y (mm)", "energy (MeV)"},
    "showers-front": {"x (mm)", "g.h5", "Geant4", "y (mm)", "energy (MeV)"},
    "moments": {
        "barycentre along depth (layer)", "barycentre along y (mm)", "rms width along x (mm)",
        "share of the showers",
    },
    "cells": {"cells above 0.3 MeV (hits)", "layer with the most energy", "largest cell (MeV)"},
    "spectrum": {
        "energy of a cell (MeV)", "cells per shower and bin", "threshold (MeV)",
        "cells above it per shower",
    },
    "angle": {
        "requested angle (degrees)", "measured (degrees)", "difference (°)",
        "measured minus requested (degrees)",
    },
    "correlations": {"property of a shower", "correlation", "energy response", "difference"},
    "separation": {"separation power S (0: equal, 1: no overlap)", "histogram", "cells above a threshold"},
    "auc": {"area under the ROC curve (0.5: indistinguishable, 1: separated)", "features", "high level"},
}  # fmt: skip


def assessment(*measures):
    sample = Sample(name="g.h5", showers=600, cells=(21, 21, 25), energy_range_gev=(10, 100))
    other = sample.model_copy(update={"name": "Geant4"})
    return Assessment(generated=sample, reference=other, seed=0, measures=measures)


HITS = {"value": 0.03, "error": 0.01, "baseline": 0.02, "baseline_error": 0.005}
AREA = {"value": 0.8, "error": 0.02, "baseline": 0.48, "baseline_error": 0.03, "ideal": 0.5}
DISTANCES = assessment(
    Measure(name="separation", where="hits", **HITS),
    Measure(name="separation", where="$M_1$ x", value=0.01),
    Measure(name="separation", where="unknown", value=None),
    Measure(name="auc", where="high level", **AREA),
)


@pytest.fixture(scope="module")
def drawn(reference, noise):
    true = observe(reference)
    overlap = OverlapRegion(true, true, matched=True, angle_known=True, notes=())
    pairs = pick_pairs(noise, reference)
    shown = Samples(overlap, "g.h5", "Geant4", untrained=observe(noise), pairs=pairs)
    return {figure.name: figure for figure in figures(shown, DISTANCES)}


def texts(figure):
    return [element.text for element in ET.fromstring(figure.svg).iter("text")]  # noqa: S314 (our own)


@pytest.mark.slow
def test_there_is_every_figure_and_each_family_is_in_one_piece(drawn):
    assert set(drawn) == set(LABELS)
    families = [family for family, _ in groupby(f.family for f in drawn.values())]
    assert len(families) == len(set(families))
    assert all(figure.caption for figure in drawn.values())


@pytest.mark.parametrize("name", sorted(LABELS))
def test_each_figure_names_its_axes_with_units_and_its_samples(drawn, name):
    said = set(texts(drawn[name]))
    assert LABELS[name] <= said
    assert any("Geant4" in text for text in said if text)
    assert any("g.h5" in text for text in said if text)


SHOWERS = {"showers-depth", "showers-front"}
WITH_RATIOS = set(LABELS) - SHOWERS - {"correlations", "separation", "auc"}


@pytest.mark.parametrize("name", sorted(WITH_RATIOS))
def test_ratio_panels_show_the_baseline_and_the_untrained_generator(drawn, name):
    assert {"MC-MC baseline", "untrained"} <= set(texts(drawn[name]))


def test_every_sample_has_the_same_colour_everywhere(drawn):
    assert all("#3d7dca" in drawn[name].svg for name in set(LABELS) - SHOWERS)
    assert all("#d9692a" in drawn[name].svg for name in WITH_RATIOS)


def test_the_first_figures_are_showers_of_rising_energy_beside_monte_carlo(drawn, reference, noise):
    assert list(drawn)[:2] == ["showers-depth", "showers-front"]
    pairs = pick_pairs(noise, reference)
    energies = [theirs.energy_gev for _, theirs in pairs]
    assert len(pairs) == 4
    assert energies == sorted(energies)
    for pair in pairs:
        assert all(str(shower) in texts(drawn["showers-depth"]) for shower in pair)
    assert drawn["showers-front"].svg.count("<image") == 9  # eight maps, and the scale of colours


def test_a_pair_has_the_nearest_generated_shower_and_no_empty_monte_carlo(reference):
    shuffled = reference[np.random.default_rng(3).permutation(len(reference))]
    for ours, theirs in pick_pairs(shuffled, reference):
        assert (ours.energy_gev, ours.angle_deg) == (theirs.energy_gev, theirs.angle_deg)
        assert np.array_equal(ours.ecal_gev, theirs.ecal_gev)
    empty = replace(reference, ecal_gev=np.zeros_like(reference.ecal_gev))
    assert pick_pairs(reference, empty) == ()


def test_a_generated_shower_stands_beside_the_one_whose_energy_and_angle_it_was_asked_for(
    reference,
):
    unknown = replace(reference, theta_rad=None)
    other = replace(unknown, mtheta_rad=unknown.mtheta_rad + 1)  # as measured on generated images
    for ours, theirs in pick_pairs(other, unknown, matched=True):
        assert (ours.energy_gev, ours.angle_deg) == (theirs.energy_gev, theirs.angle_deg)


def test_unknown_values_have_no_bar_and_text_is_not_mathematics(drawn):
    said = texts(drawn["separation"])
    assert "unknown" not in said
    assert "$M_1$ x" in said


def test_without_distances_there_is_no_figure_of_them():
    assert list(distance_figures(assessment())) == []


def pair(generated, reference):
    return Samples(OverlapRegion(generated, reference, matched=False, angle_known=True, notes=()))


def test_the_measured_angle_is_shown_alone_if_the_requested_one_is_unknown(reference):
    true = observe(replace(reference, theta_rad=None))
    (figure,) = family_figures(pair(true, true), "Angle")
    assert "measured angle (degrees)" in texts(figure)
    assert "measured minus requested (degrees)" not in texts(figure)
    assert "untrained" not in texts(figure)


@pytest.mark.parametrize("family", ["Energy response", "Cells", "Correlations"])
def test_empty_showers_and_few_of_them_are_drawn_without_a_warning(reference, family):
    ecal = reference.ecal_gev[:60].copy()
    ecal[:30] = 0
    ecal[:, :, :, 20:] = 0
    few = observe(reference[slice(60)])
    failures = observe(replace(reference[slice(60)], ecal_gev=ecal))
    draw = (
        correlation_figures if family == "Correlations" else partial(family_figures, family=family)
    )
    assert list(draw(pair(failures, few)))


def test_the_largest_correlation_is_compared_with_that_of_two_samples_of_these_sizes():
    true = observe(join_showers(simulate(1200, seed=3, cells=(21, 21))))
    random, found = np.random.default_rng(6), []
    for _ in range(12):
        rows = random.permutation(len(true))
        one, other = true[np.sort(rows[:120])], true[np.sort(rows[120:240])]
        apart = correlations(high_level(one)) - correlations(high_level(other))
        found.append(np.abs(apart).max())
    (figure,) = correlation_figures(pair(one, other))
    said = re.search(
        r"for two samples of Monte Carlo of these sizes it is ([\d.]+)\.", figure.caption
    )
    assert float(said[1]) == pytest.approx(np.mean(found), rel=0.2)


def test_one_energy_and_one_angle_are_drawn(reference):
    alike = replace(
        reference[slice(60)],
        energy_gev=np.full(60, 50.0, np.float32),
        theta_rad=np.full(60, 1.5, np.float32),
    )
    true = observe(alike)
    assert len(list(family_figures(pair(true, true), "Energy response"))) == 3
