"""report.html at the end of a training."""

from __future__ import annotations

import shutil
import sys

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
    from cloudgan.api.run_report import write_report

    written = write_report(run, Silent(), least_seconds=0)
    assert written == (run.path / "report.html", "")
    page = written.path.read_text(encoding="utf-8")
    assert "Only 40 showers are compared, too few for a verdict" in page
    for part in ("Losses", "Energy response", "held-out Monte Carlo"):
        assert part in page, part


def test_a_short_training_gets_no_page_and_a_missing_package_is_named(run, monkeypatch):
    from cloudgan.api.run_report import write_report

    assert write_report(run, Silent(), least_seconds=1e6) == (None, "")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    written = write_report(run, Silent(), least_seconds=0)
    assert written.path is None
    assert "no report.html: it needs matplotlib; run `pip install" in written.why_missing
    assert not (run.path / "report.html").exists()
