from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING

import pytest

from cloudgan.core.launch import Launch, local_attempt
from cloudgan.core.record import Line, RunRecord
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.estimate import run_times
from cloudgan.cost.parts import cost_report

if TYPE_CHECKING:
    from cloudgan.core.price_row import PriceRow

TODAY = dt.date(2026, 11, 21)


@pytest.fixture(scope="module")
def row() -> PriceRow:
    return load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/on_demand")


def test_the_parts_of_a_run_are_all_of_its_time(record: RunRecord, row: PriceRow) -> None:
    report = cost_report("demo", run_times(record), TODAY, row=row)
    seconds = {part.name: part.seconds for part in report.parts if part.seconds is not None}
    assert seconds == {
        "first epochs": 20,
        "later epochs": 30,
        "validation": 8,
        "checkpoints": 4,
        "start-up, repeated work and all else": 3,
    }
    assert report.totals.known_usd == pytest.approx(65 / 3600 * 2.86)


def test_what_a_run_here_cannot_know_is_named(record: RunRecord, row: PriceRow) -> None:
    report = cost_report("demo", run_times(record), TODAY, row=row)
    assert report.totals.unknown == ("provisioning", "idle tail", "storage", "egress")
    assert report.total().startswith("at least 0.05164 USD (unknown: provisioning")
    assert report.priced_as == row.row_id
    assert report.basis.startswith("not measured there")


def test_this_machine_has_no_price_and_its_run_is_not_free(record: RunRecord) -> None:
    launch = Launch(run="demo", config_hash="abc", attempts=(local_attempt("x"),))
    report = cost_report("demo", run_times(record), TODAY, launch=launch)
    assert all(part.usd is None for part in report.parts)
    assert report.total().startswith("unknown (unknown: first epochs")
    assert report.durations.billed_seconds is None
    assert report.durations.program_seconds == 65


def test_a_killed_process_leaves_the_rest_unknown(lines: tuple[Line, ...], row: PriceRow) -> None:
    report = cost_report("demo", run_times(RunRecord(lines=lines[:-1])), TODAY, row=row)
    assert "start-up, repeated work and all else" in report.totals.unknown
    assert report.totals.known_usd == pytest.approx(62 / 3600 * 2.86)


def test_a_report_says_what_it_was_made_from(record: RunRecord, row: PriceRow) -> None:
    report = cost_report("demo", run_times(record), TODAY, row=row, record=record, offers=(row,))
    assert report.provenance.today == "2026-11-21"
    assert report.provenance.config_hash == "abc"
    assert report.provenance.git_commit == "c0ffee"
    assert report.rows == (row,)
    assert [offer.row for offer in report.elsewhere] == [row]
    assert math.isclose(report.elsewhere[0].usd_per_run or 0, report.totals.known_usd)
