import pytest

from cloudgan.money.catalog import Catalog, load_catalog
from cloudgan.money.paper_replay import replayed_runs
from cloudgan.speed.measured import paper_runs


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


@pytest.fixture(scope="module")
def headlines(catalog):
    priced = replayed_runs(catalog, [run for run in paper_runs() if run.is_fed])
    slowest_first = sorted(priced, key=lambda run: -run.steady_epoch_seconds)
    return {(run.accelerator, run.accelerators): run for run in slowest_first}


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
    headlines,
    size,
    list_2021,
    preemptible_2021,
    spot,
):
    usd = headlines[size].usd_per_epoch
    assert usd["on_demand_2021"] == pytest.approx(list_2021, rel=5e-3)
    assert usd["preemptible_2021"] == pytest.approx(preemptible_2021, rel=5e-3)
    assert usd["on_demand"] == pytest.approx(list_2021, rel=5e-3)  # the list has not moved
    assert usd["spot"] == pytest.approx(spot, rel=5e-3)


def test_every_run_names_the_rows_that_priced_it(catalog):
    for run in replayed_runs(catalog):
        for name, row_id in run.price_rows.items():
            assert row_id is not None
            row = catalog.row(row_id)
            assert run.usd_per_epoch[name] == pytest.approx(
                run.steady_epoch_seconds / 3600 * row.usd_per_hour * run.nodes
            )


def test_all_runs_of_the_paper_on_google_cloud_are_there():
    runs = paper_runs()
    assert len(runs) == 31
    gpus = [run for run in runs if run.accelerator == "V100"]
    for run in gpus:
        assert run.accelerators == run.nodes * int(
            run.node_type.split("+")[1].removesuffix("xV100")
        )
    assert {run.node_type for run in runs} - {run.node_type for run in gpus} == {
        "v2-8",
        "v2-32",
        "v3-8",
        "v3-32",
    }
    for run in runs:
        assert run.steps_per_epoch * run.replicas * run.batch_per_replica == run.showers_per_epoch


def test_one_v3_chip_made_75_showers_a_second(
    headlines,
):
    assert headlines["TPU-v3", 4].showers_per_second / 4 == pytest.approx(75.0, rel=1e-3)


def test_the_headlines_are_the_fed_runs(headlines):
    assert [n for kind, n in headlines if kind == "V100"] == [2, 4, 8, 16, 32, 64, 128]
    assert sum(run.is_fed for run in paper_runs()) == 24
    assert headlines["V100", 32].steady_epoch_seconds == 115.02


def test_a_missing_price_is_unknown_and_not_zero(catalog):
    run = next(run for run in paper_runs() if run.node_type == "v3-8")
    rows = tuple(r for r in catalog.rows if (r.node_type, r.market) != ("v3-8", "spot"))
    (priced,) = replayed_runs(Catalog(rows), [run])
    assert priced.usd_per_epoch["spot"] is None
    assert priced.price_rows["spot"] is None
    assert priced.usd_per_epoch["on_demand"] is not None
