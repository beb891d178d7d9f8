"""report.html at the end of a training."""

import re
import shutil

import pytest

from cloudgan.core.progress import Silent
from cloudgan.schema.run_folder import RunFolder

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tf


@pytest.fixture
def run(small_demo, tmp_path):
    """A trained run of 160 showers, 40 held out, without its report."""
    folder = shutil.copytree(small_demo.copy, tmp_path / "small")
    (folder / "report.html").unlink()
    return RunFolder(folder)


def test_the_page_has_losses_and_showers_beside_monte_carlo_and_says_that_they_are_few(run):
    from cloudgan.api.run_page import write_report

    written = write_report(run, Silent(), least_seconds=0)
    assert written == (run.path / "report.html", "")
    page = written.path.read_text(encoding="utf-8")
    assert "were compared" not in page
    assert re.search(r"Cannot tell: 40 showers are too few for .*; give about [\d,]+ of each", page)
    for part in ("Losses", "Energy response", "held-out Monte Carlo"):
        assert part in page, part


def test_the_page_of_a_slow_generator_says_that_it_compared_a_part_of_the_showers(run, monkeypatch):
    from cloudgan.api.run_page import write_report

    monkeypatch.setattr("cloudgan.api.run_page._SECONDS", 0.0)
    page = write_report(run, Silent(), least_seconds=0).path.read_text(encoding="utf-8")
    assert "20 of 40 held-out showers were compared, as many as take little time." in page
    assert f"cloudgan validate {run.path}" in page


def test_a_short_training_gets_no_page(run):
    from cloudgan.api.run_page import write_report

    assert write_report(run, Silent(), least_seconds=1e6) == (None, "")
    assert not (run.path / "report.html").exists()
