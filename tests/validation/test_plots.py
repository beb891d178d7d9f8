from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from cloudgan.validation.observables import observe
from cloudgan.validation.plots import Samples, figures


@pytest.fixture(scope="module")
def drawn(reference, noise):
    true = observe(reference)
    return figures(Samples(true, observe(reference), observe(noise), "Geant4"))


def texts(svg):
    return [element.text for element in ET.fromstring(svg).iter("text")]  # noqa: S314 (our own)


@pytest.mark.parametrize(
    ("name", "axis"),
    [
        ("response", "energy of the primary (GeV)"),
        ("profiles", "mean energy per bin (MeV)"),
        ("hits", "cells above 0.3 MeV per shower"),
        ("angle", "requested angle (degrees)"),
        ("spectrum", "energy of a cell (MeV); dotted: 0.3 MeV, a hit"),
    ],
)
def test_each_figure_names_its_samples_and_its_units(drawn, name, axis):
    assert {axis, "Geant4", "generator", "untrained"} <= set(texts(drawn[name]))


def test_every_sample_has_the_same_colour_everywhere(drawn):
    assert all("#3d7dca" in svg and "#d9692a" in svg for svg in drawn.values())


def test_the_untrained_sample_may_be_missing(reference):
    true = observe(reference)
    svg = figures(Samples(true, true))
    assert all("untrained" not in texts(figure) for figure in svg.values())
    assert all("Monte Carlo" in texts(figure) for figure in svg.values())


def test_empty_showers_and_empty_bins_are_drawn_without_a_warning(reference):
    ecal = reference.ecal_gev.copy()
    ecal[:200] = 0
    ecal[:, :, :, 20:] = 0
    broken = observe(replace(reference, ecal_gev=ecal))
    few = np.arange(25)
    assert figures(Samples(observe(reference), broken))
    assert figures(Samples(observe(reference)[few], broken[few]))
