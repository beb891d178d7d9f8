"""Measures of two samples: at the MC-MC baseline for one source, else the differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cloudgan.core.errors import DataError
from cloudgan.validation import assess as assess_module
from cloudgan.validation import distances, overlap
from cloudgan.validation.assess import SampleNames, assess, quick_metrics
from cloudgan.validation.assessment import IDEALS, Assessment
from cloudgan.validation.gates import apply_gates
from cloudgan.validation.observables import observe


def value(assessment, name, where=""):
    return next(m for m in assessment.all(name) if m.where == where).value


@pytest.fixture(autouse=True)
def _few_weights(monkeypatch):
    monkeypatch.setattr(assess_module, "BOOTSTRAPS", 12)
    monkeypatch.setattr(assess_module, "PERMUTATIONS", 199)


def test_other_showers_of_the_same_source_are_at_the_baseline(same_source):
    assert all(m.is_at_baseline for m in same_source.measures)
    assert all(m.baseline is not None and m.p >= 0.01 for m in same_source.measures)
    compared = {m.name for m in same_source.measures if m.error is None}
    assert compared == {"coverage", "energy_distance", "layer_spread"}


def test_every_measure_has_an_ideal_and_keeps_the_order_of_the_list(same_source):
    order = list(IDEALS)
    places = [order.index(measure.name) for measure in same_source.measures]
    assert places == sorted(places)
    missing = set(IDEALS) - {measure.name for measure in same_source.measures}
    assert missing == {"auc", "jsd"}


def test_the_same_showers_have_no_distance_at_all(measured):
    same = assess(measured, measured, classify=False)
    for measure in same.measures:
        if measure.name not in (
            "fpd",
            "kpd",
            "coverage",
        ):  # what is without bias is not ideal for copies
            assert measure.value == pytest.approx(measure.ideal, abs=1e-7), measure
    assert value(same, "fpd") < 0
    assert value(same, "kpd") < 0


def test_more_energy_changes_the_response_alone_and_matched_showers_have_smaller_errors(
    remade, measured, same_source
):
    more = assess(observe(remade(lambda cells: 1.05 * cells)), measured, classify=False)
    for measure in more.all("response"):
        assert measure.value == pytest.approx(1.05, abs=1e-3)
    assert max(m.error for m in more.all("response")) < 1e-3
    assert min(m.error for m in same_source.all("response")) > 1e-3
    for name in ("profile_x", "profile_y", "profile_z"):
        assert value(more, name) == pytest.approx(0, abs=1e-3)
    for name in ("response_width", "diversity", "angle_slope"):
        assert value(more, name) == pytest.approx(1, abs=1e-3)


def test_an_error_is_the_scatter_over_samples_of_that_size(others, measured):
    """Bootstrap against the textbook: the error of a mean."""
    found = assess(observe(others), measured, classify=False)
    ours, theirs = observe(others).response, measured.response
    expected = np.hypot(ours.std() / ours.mean() / 20, theirs.std() / theirs.mean() / np.sqrt(600))
    assert value(found, "response") == pytest.approx(ours.mean() / theirs.mean(), rel=1e-6)
    error = next(m for m in found.all("response") if not m.where).error
    assert error == pytest.approx(expected, rel=0.7)


def test_baselines_grow_with_fewer_showers(measured):
    many = assess(measured[:300], measured[300:], classify=False)
    few = assess(measured[:100], measured[300:400], classify=False)
    for name in ("profile_z", "separation_median", "wasserstein_median"):
        baselines = [next(m.baseline for m in a.all(name) if not m.where) for a in (few, many)]
        assert baselines[0] > 1.2 * baselines[1]


def test_a_result_has_its_names_is_a_function_of_the_seed_and_survives_json(measured):
    names = SampleNames("a.h5", "b.h5")
    first, again, other = (
        assess(measured[:300], measured[300:], seed=seed, names=names, classify=False)
        for seed in (3, 3, 4)
    )
    assert first == again == Assessment.model_validate_json(first.model_dump_json())
    assert first.all("profile_z")[0].baseline != other.all("profile_z")[0].baseline
    assert [(each.name, each.showers) for each in (first.generated, first.reference)] == [
        ("a.h5", 300), ("b.h5", 300)
    ]  # fmt: skip
    assert first.reference.cells == (21, 21, 25)


def test_the_baseline_of_a_distance_without_bias_is_zero_by_its_scatter(same_source):
    for name in ("fpd", "kpd"):
        measure = same_source.all(name)[0]
        assert abs(measure.baseline) < 2 * measure.baseline_error


def test_sums_do_not_depend_on_the_chunk_size(others, measured, monkeypatch, same_source):
    monkeypatch.setattr(overlap, "_CHUNK", 97)
    found = assess(observe(others), measured, classify=False)
    for name in ("response", "profile_z", "metric"):
        assert value(found, name) == pytest.approx(value(same_source, name))
        errors = [next(m.error for m in a.all(name) if not m.where) for a in (found, same_source)]
        assert errors[0] == pytest.approx(errors[1], rel=0.8)


def test_classifiers_have_baselines_at_two_levels(monkeypatch, remade, measured):
    monkeypatch.setattr(distances, "TREES", 20)
    few = slice(0, 200)
    found = assess(observe(remade(lambda cells: 1.1 * cells))[few], measured[few])
    for level in ("high level", "low level"):
        auc, jsd = (next(m for m in found.all(n) if m.where == level) for n in ("auc", "jsd"))
        assert auc.value > 0.7
        assert jsd.value > 0.05
        assert auc.baseline == pytest.approx(0.5, abs=0.02)
        assert not auc.is_at_baseline


def test_empty_showers_are_counted_in_a_note(reference, measured):
    ecal = reference.ecal_gev.copy()
    ecal[:30] = 0
    found = assess(observe(replace(reference, ecal_gev=ecal)), measured, classify=False)
    assert (
        "30 of 600 generated showers are empty (at most 0.1% of the primary energy is in the cells)"
        in found.notes
    )
    assert value(found, "lateral_rms", "x") == pytest.approx(1, abs=0.02)
    assert value(found, "response") == pytest.approx(0.95, abs=0.01)


def test_a_bin_with_too_few_showers_does_not_apply_and_is_noted(measured):
    energy = measured.energy_gev
    few = measured[(energy < 70) | (energy >= np.sort(energy)[-3])]
    found = assess(few, few, classify=False)
    known = {m.where: m.value for m in found.all("response")}
    assert known["40-70 GeV"] == 1
    assert known["70-100 GeV"] is None
    assert any("70-100 GeV does not apply: fewer than 5" in note for note in found.notes)


def test_in_a_window_without_tails_they_do_not_apply(reference):
    small = observe(replace(reference, ecal_gev=reference.ecal_gev[:, 6:15, 6:15]))
    found = assess(small, small, classify=False)
    assert value(found, "tail") is None
    assert any("tail does not apply" in note for note in found.notes)


def test_what_only_the_generated_showers_have_is_unknown_and_not_excused(reference, measured):
    cells = reference.ecal_gev.copy()
    cells[:, :6] = cells[:, 15:] = cells[:, :, :6] = cells[:, :, 15:] = 0
    found = assess(measured, observe(replace(reference, ecal_gev=cells)), classify=False)
    (tail,) = found.all("tail")
    assert (tail.value, tail.applies) == (None, True)
    assert any("tail is unknown" in note for note in found.notes)
    assert "lateral tail" in " ".join(apply_gates(found).failures)


def test_with_unknown_theta_the_angle_is_only_a_distribution(reference, measured):
    found = assess(observe(replace(reference, theta_rad=None)), measured, classify=False)
    assert not found.all("angle_slope")
    assert value(found, "separation", "measured angle") == 0
    assert any("theta" in note for note in found.notes)


def test_a_reference_with_measured_requested_angles_has_no_angle_spread(reference):
    requested = observe(reference, requested_rad=reference.mtheta_rad)
    found = assess(requested, requested, classify=False)
    assert value(found, "angle_slope") == pytest.approx(1, abs=1e-4)
    assert not found.all("angle_spread")
    assert any("the spread of the angle is" in note for note in found.notes)


def test_sampling_of_a_long_file_is_noted(measured):
    some = replace(measured, out_of=120_000)
    found = assess(some, measured, classify=False)
    assert found.notes == ("600 of 120,000 generated showers were measured, evenly spaced",)


def test_with_few_showers_the_verdict_is_that_nothing_can_be_told_and_how_many_are_needed(measured):
    verdict = apply_gates(assess(measured[:100], measured[300:400], classify=False))
    assert (verdict.grade, verdict.passed, verdict.failures) == ("cannot tell", False, ())
    assert 200 < verdict.needed < 5000


def test_few_showers_suffice_to_see_a_gross_defect(reference, measured):
    half = replace(reference, ecal_gev=np.roll(reference.ecal_gev, 3, 1))
    verdict = apply_gates(assess(observe(half)[:60], measured[300:360], classify=False))
    assert verdict.grade == "fail"
    assert "cells off along x" in " ".join(verdict.failures)


def test_fewer_than_twenty_showers_are_refused(measured):
    with pytest.raises(DataError, match="19 generated showers; give at least 20"):
        assess(measured[:19], measured, classify=False)


NAMES = ["metric", "response", "profile_z", "hits", "angle", "separation"]


def numbers(ecal, reference, measured):
    requested = reference.theta_rad
    return quick_metrics(
        observe(replace(reference, ecal_gev=ecal), requested_rad=requested), measured
    )


def test_equal_showers_are_at_zero_in_each_number(measured):
    found = quick_metrics(measured, measured)
    assert list(found) == NAMES
    assert list(found.values()) == pytest.approx([0] * 6, abs=1e-9)


def more_above_70_gev(cells, energy):
    return cells * np.where(energy > 70, np.float32(1.2), np.float32(1))[:, None, None, None]


@pytest.mark.parametrize(
    ("change", "name", "value", "metric"),
    [
        (lambda c, _: np.float32(1.05) * c, "response", pytest.approx(0.05, rel=0.05), 0.01),
        (lambda c, _: c[:, :, ::-1], "angle", pytest.approx(2.0, rel=0.05), 0.01),
        # The response is that of the worst bin of energy.
        (more_above_70_gev, "response", pytest.approx(0.2, abs=0.01), 0),
        (lambda c, _: np.roll(c, 1, axis=3), "response", pytest.approx(0, abs=1e-6), 0.1),
    ],
)
def test_each_metric_detects_its_defect(*, change, name, value, metric, reference, measured):
    found = numbers(change(reference.ecal_gev, reference.energy_gev), reference, measured)
    assert found[name] == value
    assert found["metric"] > metric
    assert (found["profile_z"] > 0.1) is (metric == 0.1)


def test_hits_are_those_above_a_third_of_an_mev(reference, measured):
    gev = reference.ecal_gev
    found = numbers(
        np.where((gev > 3e-4) & (gev < 6e-4), np.float32(2e-4), gev), reference, measured
    )
    assert found["hits"] == pytest.approx(1 - (gev >= 6e-4).sum() / (gev > 3e-4).sum(), abs=1e-6)


def test_noise_has_a_large_shape_distance(noise, measured):
    found = quick_metrics(observe(noise), measured)
    assert found["separation"] > 0.5
    assert found["metric"] > 1


def test_unknown_metrics_are_left_out(reference, measured):
    found = quick_metrics(observe(replace(reference, theta_rad=None)), measured)
    assert list(found) == [name for name in NAMES if name != "angle"]
    nothing = quick_metrics(observe(replace(reference, ecal_gev=0 * reference.ecal_gev)), measured)
    assert "metric" not in nothing
    assert nothing["response"] == 1


def test_an_energy_bin_without_showers_leaves_the_response_of_the_others(measured):
    energy = measured.energy_gev
    few = measured[(energy < 40) | (energy > 70)]
    assert quick_metrics(few, few)["response"] == 0
