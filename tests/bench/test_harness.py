"""Variants in turns, their statistics, and the comparison with an earlier result."""

from __future__ import annotations

import json
import os
import signal

import pytest

from cloudgan.bench.harness import (
    Column,
    Measured,
    Measurement,
    in_turns,
    ratios,
    run,
    spread,
    table_of,
    variants_json,
    with_range,
)
from cloudgan.core.errors import CloudganError, ConfigError, Interrupted
from cloudgan.core.progress import Silent
from cloudgan.reports.page import render
from cloudgan.reports.table import cell_text
from cloudgan.schema.options.bench import BenchOptions


def test_a_spread_has_the_median_the_extremes_and_the_quartiles():
    found = spread([5.0, 1.0, 2.0, 3.0, 4.0])
    assert (found.min, found.lower_quartile, found.median) == (1, 2, 3)
    assert (found.upper_quartile, found.max, found.count) == (4, 5, 5)
    assert set(vars(spread([7.0])).values()) == {7.0, 1}
    assert spread([2.51234, 2.4321, 2.6049]).describe() == "2.51 (2.43 to 2.6)"


def test_a_ratio_compares_neighbours_and_not_medians():
    """The work of another program makes every measurement five times slower for a while."""
    slow, fast = [2.0, 10.0, 10.0, 2.0], [1.0, 5.0, 5.0, 1.0]
    assert ratios(slow, fast) == [2.0] * 4
    assert ratios([4.0, 6.0, 9.0], [2.0, 3.0]) == [2.0, 2.0]  # the last one has no partner
    with pytest.raises(CloudganError, match="no round was finished"):
        spread(ratios([1.0], []))


def ctrl_c():
    raise KeyboardInterrupt


def sigterm():
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("turns", "stop", "taken"),
    [
        (None, ctrl_c, {"A": [1, 3, 5], "B": [2, 4, 6]}),
        (3, ctrl_c, {"A": [1, 3], "B": [2]}),
        (3, sigterm, {"A": [1, 3], "B": [2]}),
        (1, ctrl_c, {"A": [1]}),
    ],
)
def test_variants_take_turns_and_what_was_measured_before_the_end_stays(turns, stop, taken):
    seen = []

    def measure():
        if len(seen) == turns:
            stop()
        seen.append(0)
        return {"n": len(seen)}

    before = signal.getsignal(signal.SIGTERM)
    found, interrupted = in_turns({"A": measure, "B": measure}, 3, Silent(), facts={"A": {"x": 1}})
    assert {one.name: one.values("n") for one in found} == taken
    assert found[0].facts == {"x": 1}
    assert interrupted == (turns is not None)
    assert signal.getsignal(signal.SIGTERM) == before


def test_stopped_before_anything_was_measured_there_is_no_result():
    with pytest.raises(Interrupted, match="before anything was measured"):
        in_turns({"A": ctrl_c}, 5, Silent())


def variant(seconds, name="own"):
    return Measured(name, {"device": "CPU"}, [{"seconds": one} for one in seconds])


COLUMNS = (Column("seconds", "time, ms", with_range, 1000), Column("seconds"), Column("more"))


def test_table_and_json_follow_from_one_description():
    one = variant([0.002, 0.001])
    one.put_ratio("more", "seconds", variant([0.001]), 2)
    table = table_of([one], COLUMNS, "said", {"where": "device"})
    assert table.columns == ("variant", "where", "time, ms")
    assert [cell_text(cell) for cell in table.rows[0]] == ["own", "CPU", "1.5 (1 to 2)"]
    (said,) = variants_json([one], COLUMNS)
    assert (said["device"], said["seconds"].median, said["more"].count) == ("CPU", 0.0015, 1)
    assert said["rounds"] == [{"seconds": 0.002, "more": 1.0}, {"seconds": 0.001}]


def measure(options, seconds=(2.0,)):
    variants = [variant(seconds)]
    table = table_of(variants, COLUMNS, "")
    listed = variants_json(variants, COLUMNS[:2])
    found = Measurement(title="How fast?", variants=listed, lines=("done",), tables=(table,))
    return run(lambda *_: found, options, Silent())


def test_an_earlier_result_stands_beside_the_new_one(tmp_path):
    path = tmp_path / "earlier.json"
    earlier = measure(BenchOptions(), [4.0, 5.0])
    path.write_text(json.dumps(earlier.as_json() | {"machine": "another one"}))
    found = measure(BenchOptions(compare=path))
    assert found.view().table.rows == (("own: seconds", 4.5, 2.0, 2.0 / 4.5),)
    assert found.as_json()["comparison"] == [{"of": ["own", "seconds"], "earlier": 4.5, "now": 2.0}]
    assert "another machine" in found.lines[-1]
    assert "earlier.json" in render(found.page())
    assert found.title in render(found.page())
    path.write_text(
        json.dumps(
            earlier.as_json() | {"variants": [earlier.as_json()["variants"][0] | {"name": "x"}]}
        )
    )
    assert "nothing is compared" in measure(BenchOptions(compare=path)).lines[-1]


@pytest.mark.parametrize("text", ["{}", "[]", '{"a": 1}', "no JSON"])
def test_what_is_no_earlier_result_is_refused_before_anything_is_measured(tmp_path, text):
    path = tmp_path / "earlier.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="earlier"):
        run(lambda *_: pytest.fail("it was measured"), BenchOptions(compare=path), Silent())
