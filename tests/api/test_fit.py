"""Predictions from a CSV file of timings."""

from __future__ import annotations

import json

import pytest

from cloudgan.api.fit import fit_and_predict, fit_table, sizes_to_predict
from cloudgan.core.errors import ConfigError, DataError

PAPER = "n,seconds\n2,1784.42\n4,900.49\n8,456.62\n16,229.66\n16,227.56\n"


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(PAPER)
    return path


def test_the_report_has_these_keys_in_this_order(csv):
    said = json.loads(fit_and_predict(csv, (128, 32)).model_dump_json())
    assert list(said) == ["fit", "predictions"]
    keys = ["n", "seconds", "low_seconds", "high_seconds", "extrapolation"]
    assert [list(one) for one in said["predictions"]] == [keys, keys]
    assert [one["n"] for one in said["predictions"]] == [128, 32]
    assert said["predictions"][0]["extrapolation"] == "extrapolated 8x"


def test_the_fit_lists_its_data_and_its_limits(csv):
    fit = fit_and_predict(csv, (32,)).fit
    assert "input rate" in fit.not_in_it
    (regime,) = fit.regimes
    assert regime.degrees_of_freedom == 2
    largest = regime.sizes[-1]
    assert (largest.n, largest.seconds, largest.slowest_seconds) == (16, 227.56, 229.66)
    assert largest.runs == 2


def test_the_table_shows_measured_and_predicted_sizes_and_the_limits(csv):
    table = fit_table(fit_and_predict(csv, (64,)))
    assert [row[0] for row in table.rows] == [2, 4, 8, 16, 64]
    assert "fastest of 2 runs" in table.rows[3][4]
    assert table.rows[4][4] == "extrapolated 4x"
    assert "not in the prediction" in table.caption


def test_too_few_sizes_name_the_file(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("n,seconds\n2,10\n4,5\n")
    with pytest.raises(DataError, match=r"two\.csv: a curve needs.*n = 2, 4"):
        fit_and_predict(path, (8,))


def test_sizes_are_read_from_text():
    assert sizes_to_predict("32, 64,128") == (32, 64, 128)


@pytest.mark.parametrize("text", ["", "0", "-4", "3.5", "8,,16", "many"])
def test_an_invalid_size_is_refused(text):
    with pytest.raises(ConfigError, match="--predict"):
        sizes_to_predict(text)
