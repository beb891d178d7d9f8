"""Speed-up, staleness and load of masters, against what can be computed by hand."""

import pytest

from cloudgan.parallel.prediction import NNLO, NNLO_PUBLISHED, Times, predict


def test_an_idle_master_costs_each_worker_its_exchange_only():
    times = Times(step=1.0, service=0.01, message=0.02)
    found = predict(times, 2)
    assert found.speedup == pytest.approx(2 / 1.05, rel=0.02)
    assert found.staleness == pytest.approx(1.0, abs=0.1)
    assert found.waiting == pytest.approx(0.05 / 1.05, abs=0.01)


def test_a_busy_master_limits_the_speedup_for_any_number_of_workers():
    for workers in (40, 100):
        found = predict(Times(step=1.0, service=0.05), workers)
        assert found.speedup == pytest.approx(1 / 0.05, rel=0.01)
        assert found.master_load == pytest.approx(1.0, abs=0.01)
        assert found.staleness == pytest.approx(workers - 1, abs=0.5)


def test_fewer_exchanges_lift_the_limit():
    often, seldom = (predict(Times(1.0, 0.05, sync_every=n), 64).speedup for n in (1, 10))
    assert often == pytest.approx(20, rel=0.02)
    assert seldom > 55


def test_two_numbers_reproduce_the_published_curve_of_nnlo():
    for workers, published in NNLO_PUBLISHED.items():
        assert predict(NNLO, workers).speedup == pytest.approx(published, rel=0.05)
    assert predict(NNLO, 8).speedup == pytest.approx(4, rel=0.05)


def test_a_tree_of_four_masters_serves_128_workers_faster_than_one():
    times = Times(step=1.0, service=0.05)
    one, four = predict(times, 128), predict(times, 128, masters=4)
    # Each master serves 8 updates, then waits for rank 0: 8 / 9 of its rate.
    assert one.speedup == pytest.approx(20, rel=0.01)
    assert four.speedup == pytest.approx(4 * 20 * 8 / 9, rel=0.03)
    assert four.top_load == pytest.approx(4 / 9, abs=0.03)
    assert four.staleness < one.staleness / 3
    each_update = predict(times, 128, masters=4, master_sync_every=1)
    assert each_update.speedup == pytest.approx(20, rel=0.02)


def test_a_seed_gives_the_same_prediction_and_another_one_nearly_so():
    times = Times(step=1.0, service=0.03, message=0.01)
    assert predict(times, 16) == predict(times, 16)
    assert predict(times, 16, seed=1).speedup == pytest.approx(predict(times, 16).speedup, rel=0.02)
