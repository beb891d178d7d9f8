from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from cli.judged import OFF, a_failed_verdict, a_verdict, an_assessment
from cloudgan.cli.origin import origin_table
from cloudgan.cli.validation_page import validation_page, verdict_sections
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.data.showers import join_showers
from cloudgan.data.source import open_source
from cloudgan.reports.page import Page, render
from cloudgan.reports.page_text import page_markdown
from cloudgan.simulation.gflash import simulate
from cloudgan.validation.observables import observe
from cloudgan.validation.overlap import Common
from cloudgan.validation.plot_samples import Samples


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "a.h5"
    showers = join_showers(simulate(80, seed=1, cells=(9, 9)))
    write_hdf5(path, [showers], attrs={"seed": 1})
    measured = observe(showers)
    common = Common(measured, measured, matched=False, angle_known=True, notes=())
    return validation_page(
        an_assessment(),
        a_failed_verdict(),
        Samples(common, "a.h5", "b.h5"),
        title="Validation of a.h5 against b.h5",
        version="1.2.3",
        untrained=an_assessment(),
        origins=(origin_table("Generated: a.h5", open_source(str(path))),),
    )


@pytest.fixture(scope="module")
def html(page):
    return render(page)


def test_the_page_begins_with_the_grade_and_has_each_family_of_figures(page):
    assert page.lead == f"fail: {OFF} (and 1 more, below)"
    assert [section.title for section in page.sections] == [
        "Verdict", "What broke", "Energy response", "Profiles", "Shape", "Cells", "Angle",
        "Correlations", "Distances", "All numbers", "Where the showers are from",
    ]  # fmt: skip


def test_each_picture_has_titles_at_its_axes_with_units(html):
    pictures = re.findall(r"<figure>.*?(<svg.*?</svg>)", html, re.DOTALL)
    assert len(pictures) == 12
    for picture in pictures:
        said = [text.text or "" for text in ET.fromstring(picture).iter("text")]  # noqa: S314
        named = [text for text in said if not re.fullmatch(r"[\W\d⁻⁰¹²³⁴⁵⁶⁷⁸⁹]*", text)]
        units = ("(", "share", "ratio", "layer", "property of a shower")
        assert sum(any(unit in text for unit in units) for text in named) >= 2, named


def test_names_of_ids_are_those_of_one_figure_each(html):
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_nothing_is_loaded_from_elsewhere(html):
    assert not re.search(r"(src|href)=\"(?!#)", html)
    assert "http" not in re.sub(r"http-equiv", "", html)
    assert "@import" not in html
    assert "default-src 'none'" in html


def test_markdown_has_the_same_tables(page, html):
    text = page_markdown(page)
    for said in ("1.050 ± 0.004", "✗ fail", "separation, hits", "untrained", "Generated: a.h5"):
        assert said in text
        assert said in html
    assert "<svg" not in text


def test_where_nothing_broke_the_page_says_so():
    page = Page("x", sections=tuple(verdict_sections(an_assessment(), a_verdict("good"))))
    assert "Nothing that a gate asks for." in render(page)
    assert "To be known" not in render(page)
