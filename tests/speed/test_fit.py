"""Predictions from a CSV file of timings."""

import pytest

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.schema.options.money import CostOptions
from cloudgan.speed.fit import fit_and_predict
from cloudgan.speed.scaling import FEED_SPREAD

PAPER = "n,seconds\n2,1784.42\n4,900.49\n8,456.62\n16,229.66\n16,227.56\n"


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(PAPER)
    return path


def test_the_report_has_its_data_its_predictions_and_its_limits(csv):
    found = fit_and_predict(csv, (128, 32))
    said = found.as_json()
    assert list(said) == ["schema_version", "file", "fit", "predictions", "warnings"]
    times = ["seconds", "low_seconds", "high_seconds"]
    times += ["healthy_low_seconds", "healthy_high_seconds"]
    keys = ["n", "steps", "needs_showers_per_second", "waits_for_input", "extrapolation"]
    assert [list(one) for one in said["predictions"]] == [[*times, *keys]] * 2
    (regime,) = found.fit.regimes
    assert not found.fit.steps_known
    largest = regime.sizes[-1]
    assert (largest.n, largest.seconds, largest.slowest_seconds) == (16, 227.56, 229.66)
    table = found.table()
    assert [row[0] for row in table.rows] == [2, 4, 8, 16, 128, 32]
    assert "fastest of 2 runs" in table.rows[3][-1]
    assert table.rows[4][-1] == said["predictions"][0]["extrapolation"] == "extrapolated 8x"
    assert "input rate" in found.fit.not_in_it
    assert found.fit.not_in_it in table.caption
    assert len(set(table.columns)) == len(table.columns)


def test_too_few_sizes_name_the_file(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("n,seconds\n2,10\n4,5\n")
    with pytest.raises(DataError, match=r"two\.csv: a curve needs.*n = 2, 4"):
        fit_and_predict(path, (8,))


def test_steps_come_from_the_column_or_from_showers_and_batch(csv, tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text("n,seconds,steps\n2,1784.42,650\n4,900.49,325\n8,456.62,162\n16,229.66,81\n")
    (column,) = fit_and_predict(path, (128,)).predictions
    (given,) = fit_and_predict(csv, (128,), showers=124_987, batch=96).predictions
    assert column.steps == given.steps == 10
    assert fit_and_predict(csv, (128,)).predictions[0].steps is None
    assert column.needs_showers_per_second is None
    assert given.needs_showers_per_second == pytest.approx(122_880 / given.seconds, rel=0.01)


def test_a_feed_limits_the_time_and_the_table_names_it(csv):
    report = fit_and_predict(csv, (16, 64), showers=124_987, batch=96, feed=845)
    assert [one.waits_for_input for one in report.predictions] == [False, True]
    least = 122_880 / 845
    assert report.predictions[1].seconds == pytest.approx(least, rel=0.01)
    assert report.predictions[1].low_seconds == pytest.approx(least / 1.06**1.645, rel=0.01)
    assert f"give or take {100 * FEED_SPREAD:g} %" in CostOptions.model_fields["feed"].description
    assert report.table().rows[-1][-1] == "extrapolated 4x, waits for its input"


@pytest.mark.parametrize("given", [{"showers": 100}, {"batch": 4}, {"feed": 8.0}])
def test_showers_batch_and_feed_belong_together(csv, given):
    with pytest.raises(ConfigError, match="belong together"):
        fit_and_predict(csv, (8,), **given)


def test_a_fit_that_misses_its_own_points_warns(tmp_path):
    path = tmp_path / "growing.csv"
    path.write_text("n,seconds\n2,100\n4,150\n8,300\n")
    (warning,) = fit_and_predict(path, (16,)).warnings
    assert "does not describe its own points" in warning
    assert "n=8 300 s" in warning
