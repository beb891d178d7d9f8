from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from cloudgan.validation.metrics import classifier
from cloudgan.validation.metrics.classifier import two_sample_test


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    monkeypatch.setattr(classifier, "TREES", 30)


def gaussians(shift, count=1500, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(count, 1)), random.normal(shift, size=(count, 1))


def test_one_source_is_indistinguishable():
    result = two_sample_test(*gaussians(0.0), seed=0)
    assert result.auc == pytest.approx(0.5, abs=3 * result.auc_error)
    assert result.jsd == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize("shift", [0.5, 1.0, 2.0])
def test_two_gaussians_reach_the_optimal_auc(shift):
    """AUC = Phi(d / sqrt 2), and the divergence is its integral: the classifier's is a bound."""
    result = two_sample_test(*gaussians(shift), seed=0)
    assert result.auc == pytest.approx(stats.norm.cdf(shift / np.sqrt(2)), abs=0.025)

    def part(t):
        f, g = stats.norm.pdf(t), stats.norm.pdf(t, shift)
        return (f * np.log2(2 * f / (f + g)) + g * np.log2(2 * g / (f + g))) / 2

    assert result.jsd == pytest.approx(integrate.quad(part, -9, 9 + shift)[0], abs=0.04)


def test_classes_of_other_sizes_weigh_the_same():
    ours, theirs = gaussians(1.0, 4000)
    result = two_sample_test(ours[:1000], theirs, seed=0)
    assert result.auc == pytest.approx(0.76, abs=0.04)
    assert result.jsd == pytest.approx(0.16, abs=0.03)


def test_the_divergence_is_the_mean_of_both_classes_for_any_sizes():
    """A narrow and a wide Gaussian: the divergence is not symmetric."""
    random = np.random.default_rng(3)
    narrow, wide = random.normal(size=(1000, 1)), random.normal(0, 4, size=(4000, 1))

    def part(t):
        f, g = stats.norm.pdf(t), stats.norm.pdf(t, 0, 4)
        return (f * np.log2(2 * f / (f + g)) + g * np.log2(2 * g / (f + g))) / 2

    expected = integrate.quad(part, -15, 15)[0]
    assert two_sample_test(narrow, wide, seed=0).jsd == pytest.approx(expected, abs=0.03)


def test_no_shower_is_scored_by_a_model_trained_on_it():
    """Random labels: a model trained on them would memorise them."""
    random = np.random.default_rng(1)
    x = random.normal(size=(600, 20))
    result = two_sample_test(x[:300], x[300:], seed=0)
    assert result.auc < 0.57
    assert result.jsd < 0.02  # a calibration that had seen them would find a pattern as well


def test_the_error_is_the_scatter_of_repeated_samples():
    result = [two_sample_test(*gaussians(0.7, 250, seed), seed=0) for seed in range(8)]
    scatter = np.std([one.auc for one in result], ddof=1)
    assert np.mean([one.auc_error for one in result]) == pytest.approx(scatter, rel=0.6)


def test_sampling_respects_the_maximum(monkeypatch):
    monkeypatch.setattr(classifier, "MAX_SHOWERS", 100)
    seen = []
    monkeypatch.setattr(
        classifier, "_scores", lambda x, *_: seen.append(len(x)) or np.arange(len(x), dtype=float)
    )
    two_sample_test(*gaussians(1.0, 400), seed=0)
    assert seen == [200]
