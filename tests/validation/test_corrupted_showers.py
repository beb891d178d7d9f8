"""Corrupts one property at a time: its measure detects it, and the first failure names it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cloudgan.validation import assess as assess_module
from cloudgan.validation.assess import assess
from cloudgan.validation.gates import apply_gates
from cloudgan.validation.observables import observe

BLUR = 0.5, 0.25


@pytest.fixture(autouse=True)
def _few_weights(monkeypatch):
    monkeypatch.setattr(assess_module, "BOOTSTRAPS", 12)
    monkeypatch.setattr(assess_module, "PERMUTATIONS", 299)


def blurred(cells, energy):
    for axis in (1, 2):
        beside = np.roll(cells, 1, axis) + np.roll(cells, -1, axis)
        cells = BLUR[0] * cells + BLUR[1] * beside
    return cells


def all_the_same(cells, energy):
    middle = np.argmin(np.abs(energy - 55))
    return np.repeat(cells[middle : middle + 1], len(cells), axis=0)


def one_template(cells, energy):
    middle = np.argmin(np.abs(energy - 55))
    return cells[middle] * (energy / energy[middle])[:, None, None, None]


def without_tails(cells, energy):
    inside = np.zeros_like(cells)
    inside[:, 6:15, 6:15] = cells[:, 6:15, 6:15]
    return inside * (cells.sum((1, 2, 3)) / inside.sum((1, 2, 3)))[:, None, None, None]


def wider_response(cells, energy):
    factor = 1 + 0.15 * np.where(np.random.default_rng(1).random(len(cells)) < 0.5, -1, 1)
    return cells * factor[:, None, None, None]


CORRUPTIONS = {
    "scaled by 5 %": (
        lambda c, _: 1.05 * c,
        "response",
        "40-70 GeV",
        "energy response is too high",
    ),
    "blurred": (blurred, "largest_cell", "", "Showers are blurred"),
    "shifted along x": (lambda c, _: np.roll(c, 1, 1), "centre", "x", "cells off along x"),
    "shifted along y": (lambda c, _: np.roll(c, 1, 2), "centre", "y", "cells off along y"),
    "shifted in depth": (lambda c, _: np.roll(c, 1, 3), "centre", "z", "Showers are too deep"),
    "mirrored": (lambda c, _: c[:, :, ::-1], "angle_slope", "", "The angle is wrong: the slope"),
    "every shower the same": (all_the_same, "diversity", "", "Showers are too similar"),
    "one template, scaled": (one_template, "diversity", "", "Showers are too similar"),
    "tails cut off": (without_tails, "tail", "", "The lateral tails are too weak"),
    "wider response": (wider_response, "response_width", "70-100 GeV", "response is too large"),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_sample_fails_and_the_first_sentence_names_the_defect(name, others, measured):
    change, measure, where, words = CORRUPTIONS[name]
    ecal = change(others.ecal_gev.astype(np.float64), others.energy_gev).astype(np.float32)
    found = assess(observe(replace(others, ecal_gev=ecal)), measured, classify=False)
    caught = next(m for m in found.all(measure) if m.where == where)
    verdict = apply_gates(found)
    assert not caught.is_at_baseline
    assert not verdict.passed
    assert words in verdict.failures[0]


OF_ANGLE = "The angle is wrong: "


@pytest.mark.parametrize(
    ("change", "measure", "words"),
    [
        (lambda theta: theta[::-1], "angle_slope", f"{OF_ANGLE}the slope"),
        (lambda theta: theta + np.float32(0.15), "angle_offset", f"{OF_ANGLE}showers are"),
    ],
    ids=["shuffled", "8.6 degrees more"],
)
def test_a_wrong_angle_fails_and_the_first_sentence_names_it(
    change, measure, words, others, measured
):
    wrong = replace(others, theta_rad=change(others.theta_rad))
    found = assess(observe(wrong), measured, classify=False)
    verdict = apply_gates(found)
    assert not found.all(measure)[0].is_at_baseline
    assert words in verdict.failures[0]


def test_the_same_source_passes_at_the_baseline(same_source):
    verdict = apply_gates(same_source)
    assert verdict.grade in {"at the baseline", "cannot tell"}
    assert verdict.failures == ()


def test_untrained_noise_fails_nearly_every_gate_except_the_response(noise, measured):
    found = assess(observe(noise), measured, classify=False)
    assert all(abs(m.value - 1) < 0.02 for m in found.all("response"))
    failed = {c.measure.name for c in apply_gates(found).checks if c.grade == "fail"}
    assert {"profile_z", "profile_x", "tail", "sparsity", "angle_slope", "metric"} <= failed
    assert "response" not in failed
