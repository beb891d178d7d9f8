"""The paper's findings follow from its published run times."""

import pytest

from cloudgan.money.catalog import Catalog, load_catalog
from cloudgan.money.paper_replay import replay, replayed_runs
from cloudgan.speed.measured import paper_runs


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


@pytest.fixture(scope="module")
def replayed(catalog):
    return replay(catalog)


@pytest.fixture(scope="module")
def headlines(catalog):
    priced = (run for run in replayed_runs(catalog) if run.is_fed)
    slowest_first = sorted(priced, key=lambda run: -run.steady_epoch_seconds)
    return {(run.accelerator, run.accelerators): run for run in slowest_first}


def the(replayed, **wanted):
    (run,) = [
        run
        for run in replayed.runs
        if all(getattr(run, name) == value for name, value in wanted.items())
    ]
    return run


@pytest.mark.parametrize(
    ("accelerators", "expected"),
    [(8, (3.91, 0.977, 0.975, 1809 / 466.5 / 4)), (64, (30.1, 0.940, 0.926, 1809 / 62.25 / 32))],
)
def test_speed_up_and_all_efficiencies_are_those_of_the_run_times(replayed, accelerators, expected):
    run = the(replayed, accelerator="V100", accelerators=accelerators, options="prefetch")
    found, (speed_up, time, samples, end_to_end) = run.scaling, expected
    assert found.speed_up == pytest.approx(speed_up, rel=2e-3)
    assert found.time_efficiency == pytest.approx(time, abs=1e-3)
    assert found.sample_efficiency == pytest.approx(samples, abs=2e-3)
    assert found.end_to_end_time_efficiency == pytest.approx(end_to_end, rel=1e-3)


def test_a_run_without_a_smaller_one_of_its_kind_has_no_speed_up(replayed):
    without = {
        (run.accelerators, run.accelerator, run.batch_per_replica)
        for run in replayed.runs
        if run.scaling is None
    }
    alone = {(32, "V100", batch) for batch in (16, 32, 48, 64, 80)}
    assert without == alone | {(2, "V100", 96), (4, "TPU-v2", 128), (4, "TPU-v3", 128)}


def ratios(comparisons):
    return {one.title: round(one.seconds_ratio, 2) for one in comparisons}


def test_prefetch_matters_from_32_gpus_on_and_nearly_four_times_at_128(replayed):
    found = [round(one.seconds_ratio, 2) for one in replayed.prefetch]
    assert found == [1.0, 1.0, 0.99, 0.99, 1.34, 2.45, 3.9]


def test_one_worker_a_node_is_the_best_layout_of_32_gpus(replayed):
    found = ratios(replayed.layouts)
    assert found["32 GPUs: 4 nodes x 8, 4 workers against 4 nodes x 8, 32 workers"] == 1.19
    assert min(found.values()) > 1
    assert len(found) == 6


def test_smaller_batches_are_slower_in_their_order(replayed):
    first_day = [one for one in replayed.batches if one.title.endswith("2020-12-14")]
    found = [round(one.seconds_ratio, 2) for one in first_day]
    assert found == [1.04, 1.06, 1.11, 1.24, 1.59]


def test_a_tpu_v3_is_as_fast_as_8_gpus_and_three_times_cheaper_then_five_times_now(replayed):
    (best, _) = replayed.tpu_against_gpu
    assert best.title == "one TPU-v3 device against 8 V100"
    assert best.seconds_ratio == pytest.approx(1.10, abs=0.01)
    assert best.usd_ratio_2021 == pytest.approx(3.0, abs=0.02)
    assert best.usd_ratio == pytest.approx(5.13, abs=0.02)


def test_60_epochs_cost_what_first_epoch_tests_and_gaps_make_of_them(replayed):
    run = the(replayed, accelerator="TPU-v3", accelerators=4)
    seconds = 797.71 + 59 * 426.5
    assert run.usd_per_60_epochs["on_demand_2021"] == pytest.approx(seconds / 3600 * 8, rel=1e-6)


@pytest.mark.parametrize(
    ("size", "list_2021", "preemptible_2021", "spot"),
    [
        (("V100", 2), 2.84, 0.813, 1.183),
        (("V100", 8), 2.90, 0.832, 1.211),
        (("V100", 64), 3.02, 0.865, 1.259),
        (("V100", 128), 3.38, 0.969, 1.409),
        (("TPU-v3", 4), 0.925, 0.278, 0.236),
        (("TPU-v3", 16), 0.917, 0.275, 0.303),
        (("TPU-v2", 4), 1.32, 0.397, 0.397),
    ],
)
def test_the_papers_epochs_cost_what_its_seconds_and_the_prices_make(
    headlines, size, list_2021, preemptible_2021, spot
):
    usd = headlines[size].usd_per_epoch
    assert usd["on_demand_2021"] == pytest.approx(list_2021, rel=5e-3)
    assert usd["preemptible_2021"] == pytest.approx(preemptible_2021, rel=5e-3)
    assert usd["on_demand"] == pytest.approx(list_2021, rel=5e-3)  # the list has not moved
    assert usd["spot"] == pytest.approx(spot, rel=5e-3)


def test_every_run_names_the_rows_that_priced_it(catalog, replayed):
    for run in replayed.runs:
        for name, row_id in run.price_rows.items():
            usd = catalog.row(row_id).cost_usd(run.steady_epoch_seconds, run.nodes)
            assert run.usd_per_epoch[name] == pytest.approx(usd)


def test_all_runs_of_the_paper_on_google_cloud_are_there():
    runs = paper_runs()
    assert len(runs) == 31
    gpus = [run for run in runs if run.accelerator == "V100"]
    for run in gpus:
        per_node = run.node_type.split("+")[1].removesuffix("xV100")
        assert run.accelerators == run.nodes * int(per_node)
    others = {run.node_type for run in runs} - {run.node_type for run in gpus}
    assert others == {"v2-8", "v2-32", "v3-8", "v3-32"}
    for run in runs:
        assert run.steps_per_epoch * run.replicas * run.batch_per_replica == run.showers_per_epoch


def test_the_headlines_are_the_fed_runs(headlines):
    assert [n for kind, n in headlines if kind == "V100"] == [2, 4, 8, 16, 32, 64, 128]
    assert sum(run.is_fed for run in paper_runs()) == 24
    assert headlines["V100", 32].steady_epoch_seconds == 115.02
    assert headlines["TPU-v3", 4].showers_per_second / 4 == pytest.approx(75.0, rel=1e-3)


def test_a_missing_price_is_unknown_and_not_zero(catalog):
    rows = tuple(r for r in catalog.rows if (r.node_type, r.market) != ("v3-8", "spot"))
    found = replay(Catalog(rows))
    run = the(found, node_type="v3-8")
    assert run.usd_per_epoch["spot"] is run.price_rows["spot"] is None
    assert run.usd_per_epoch["on_demand"] is not None
    assert found.tpu_against_gpu[0].usd_ratio is None
    assert found.prefetch[-1].usd_ratio is not None
