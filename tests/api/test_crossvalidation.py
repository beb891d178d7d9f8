"""Mean, spread and shares of a cross-validation; tests/data/pipeline/test_training_set.py has the folds."""

from pathlib import Path

import pytest

pytest.importorskip("optuna")

from cloudgan.api.search import SEED, summarize
from cloudgan.schema.search import FOLD
from cloudgan.search.result import Search
from cloudgan.search.trials import Trial


def search_of(values):
    trials = tuple(
        Trial(
            number=number, state="failed" if value is None else "complete", value=value,
            point={FOLD: fold, SEED: seed}, seconds=1.0, run=Path(f"trials/{number:04d}"),
        )
        for number, ((fold, seed), value) in enumerate(values.items())
    )  # fmt: skip
    return Search(
        path=Path("runs/cv"), objective="metric", trials=trials, size=len(trials), best=None
    )


def test_mean_and_spread_are_those_of_the_folds():
    found = summarize(search_of({(0, 0): 1.0, (1, 0): 2.0, (2, 0): 6.0}))
    assert found.mean == pytest.approx(3.0)
    assert found.deviation == pytest.approx(7**0.5)  # of 1, 2, 6
    assert found.variance_shares is None
    assert "metric 3 ± 2.6" in found.view().line


def test_with_repeats_the_variance_is_shared_between_data_and_initial_weights():
    only_data = summarize(search_of({(f, s): float(f) for f in range(3) for s in range(2)}))
    assert only_data.variance_shares == pytest.approx(
        {"data": 1, "initial weights": 0, "rest": 0}, abs=1e-9
    )
    both = summarize(search_of({(0, 0): 0.0, (0, 1): 2.0, (1, 0): 1.0, (1, 1): 3.0}))
    # mean 1.5; folds 1 and 2: 2 * 2 * 0.25 = 1 of 5; seeds 0.5 and 2.5: 2 * 2 * 1 = 4 of 5
    assert both.variance_shares == pytest.approx(
        {"data": 0.2, "initial weights": 0.8, "rest": 0}, abs=1e-9
    )


def test_a_fold_without_a_number_is_not_left_out():
    found = summarize(search_of({(0, 0): 1.0, (1, 0): None, (2, 0): 6.0}))
    assert found.mean is None
    assert "incomplete" in found.view().line
