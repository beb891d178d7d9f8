"""Pages in a real browser: mouse, keyboard, dark mode, small screen."""

from __future__ import annotations

import json

import pytest

from cloudgan.reports.page import Page, Section, write
from cloudgan.reports.table import Table

TABLE = "[data-rows]"
POINTS = "figure.plot .broad .point"


@pytest.fixture
def page(browser, sample_page, tmp_path):
    path = tmp_path / "page.html"
    write(sample_page, path)
    browser.show_as()
    browser.open(path)
    return browser


def column(page, number):
    cells = (
        f"document.querySelector('{TABLE}')"
        f".querySelectorAll('tbody tr:not([hidden]) td:nth-child({number})')"
    )
    return page.run(f"[...{cells}].map(cell => cell.textContent)")


def sorted_by(page, number):
    return page.run(f"document.querySelector('{TABLE} th:nth-child({number})').ariaSort")


def test_a_click_sorts_by_numbers_and_unknown_stays_last_both_ways(page):
    as_written = column(page, 2)
    assert as_written[1] == "unknown"
    button = f"{TABLE} th:nth-child(2) button"
    page.click(button)
    up = column(page, 2)
    assert sorted_by(page, 2) == "ascending"
    page.click(button)
    down = column(page, 2)
    assert sorted_by(page, 2) == "descending"
    assert up[-1] == down[-1] == "unknown"
    assert up[:-1] == down[-2::-1]
    assert up[1:4] == ["8.75", "12.5", "104.2"]  # as numbers, not as text
    page.click(button)
    assert sorted_by(page, 2) is None
    assert column(page, 2) == as_written


def test_numbers_of_any_size_and_sign_are_sorted(browser, tmp_path):
    values = (3e5, -2.0, 1e-7, float("inf"), -10.0, 0.5, "", 2e-8, 45)
    table = Table(("x",), tuple((value,) for value in values), interactive=True)
    write(Page("Numbers", sections=(Section("s", (table,)),)), tmp_path / "numbers.html")
    browser.open(tmp_path / "numbers.html")
    browser.click(f"{TABLE} th button")
    ascending = ["-10", "-2", "2e-08", "1e-07", "0.5", "45", "300,000", "inf"]
    assert column(browser, 1) == [*ascending, ""]
    browser.click(f"{TABLE} th button")
    assert column(browser, 1) == [*reversed(ascending), ""]


def test_the_keyboard_sorts_too(page):
    page.run(f"document.querySelector('{TABLE} th:nth-child(1) button').focus()")
    page.press("Enter", "\r")
    assert sorted_by(page, 1) == "ascending"
    names = column(page, 1)
    assert names.index("Hill 9") < names.index("Hill 10")  # as people count


def test_a_filter_keeps_the_rows_with_all_words_and_counts_them(page):
    page.run(f"document.querySelector('{TABLE} input').focus()")
    page.type("hill pass")
    assert column(page, 1) == []
    assert page.run(f"document.querySelector('{TABLE} output').textContent") == "0 of 5 rows"
    page.run(
        f"(() => {{ const i = document.querySelector('{TABLE} input'); i.value = 'hill';"
        " i.dispatchEvent(new Event('input')); })()"
    )
    assert column(page, 1) == ["Hill 9", "Hill 10"]
    assert page.run(f"document.querySelector('{TABLE} output').textContent") == "2 of 5 rows"


def tip(page):
    return page.run(
        "(() => { const t = [...document.querySelectorAll('.tip')].find(t => !t.hidden);"
        " return t ? [...t.children].map(line => line.textContent) : null; })()"
    )


def test_a_point_under_the_mouse_shows_its_values(page):
    assert tip(page) is None
    page.point_at(POINTS)
    message = page.run(f"document.querySelector('{POINTS}').ariaLabel")
    assert ", ".join(tip(page)) == message
    assert page.run("document.querySelectorAll('.point title').length") == 0  # else announced twice
    assert "region north-1" in message


def test_a_plot_is_one_tab_stop_and_arrow_keys_move_between_points(page):
    first = "figure.plot .drawn > svg.broad"
    stops = f"document.querySelectorAll('{first}')[0].querySelectorAll('[tabindex=\"0\"]')"
    assert page.run(f"{stops}.length") == 1
    page.run(f"{stops}[0].focus()")
    here = tip(page)
    page.press("ArrowRight")
    assert tip(page) != here
    label = page.run("document.activeElement.ariaLabel")
    assert tip(page)[0] in label
    page.press("Escape")
    assert tip(page) is None


def test_a_series_can_be_put_away_and_comes_back(page):
    shown = f"[...document.querySelectorAll('{POINTS}')].filter(p => p.checkVisibility()).length"
    before = page.run(shown)
    page.click("figure.plot .legend button")
    assert 0 < page.run(shown) < before
    pressed = "document.querySelector('figure.plot .legend button').ariaPressed"
    assert page.run(pressed) == "false"
    page.click("figure.plot .legend button")
    assert page.run(shown) == before


CONTRAST = """
(() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const found = rgb(getComputedStyle(e).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const worst = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("script, style, title") || !e.checkVisibility()) continue;
    const style = getComputedStyle(e);
    const ink = e instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(rgb(ink)), light(behind(e))].sort((x, y) => y - x);
    worst.push([(a + 0.05) / (b + 0.05), e.tagName + "." + e.getAttribute("class"), e.textContent]);
  }
  return worst.sort((x, y) => x[0] - y[0])[0];
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast(page, scheme):
    """At least 4.5 to 1: WCAG 2.2, success criterion 1.4.3."""
    page.show_as(scheme)
    ratio, *which = page.run(CONTRAST)
    assert ratio >= 4.5, which


def test_the_dark_scheme_is_dark(page):
    page.show_as("dark")
    ground = page.run("getComputedStyle(document.body).backgroundColor")
    assert max(json.loads(ground.replace("rgb(", "[").replace(")", "]"))) < 60


@pytest.mark.parametrize("width", [360, 1100])
def test_the_page_never_scrolls_sideways(page, width):
    page.show_as(width=width)
    found = page.run("[document.documentElement.scrollWidth, innerWidth]")
    assert found[0] <= found[1] == width


def test_a_narrow_screen_gets_the_drawing_made_for_it(page):
    page.show_as(width=360)
    seen = "[...document.querySelectorAll('.drawn > svg')].filter(s => s.checkVisibility())"
    assert page.run(f"{seen}.every(svg => svg.classList.contains('slim'))")
    size = page.run(
        "Math.min(...[...document.querySelectorAll('.slim text')]"
        ".filter(t => t.checkVisibility()).map(t => t.getBoundingClientRect().height))"
    )
    assert size > 9


def test_nothing_is_loaded_and_the_console_is_empty(page):
    page.click(f"{TABLE} th:nth-child(1) button")
    asked = [one["request"]["url"] for one in page.happened("Network.requestWillBeSent")]
    assert all(url.startswith("file:") for url in asked)
    assert len(asked) == 1
    assert page.happened("Runtime.exceptionThrown") == []
    assert page.happened("Runtime.consoleAPICalled") == []
    assert page.happened("Log.entryAdded") == []


def test_a_name_that_looks_like_a_script_stays_text(page):
    assert page.run("document.scripts.length") == 1
    assert any("</script><script>alert" in name for name in column(page, 1))
    assert page.happened("Page.javascriptDialogOpening") == []


def test_without_script_the_page_still_shows_its_tables_and_plots(page, sample_page, tmp_path):
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        write(sample_page, tmp_path / "again.html")
        page.open(tmp_path / "again.html")
        document = page.ask("DOM.getDocument", depth=-1)["root"]["nodeId"]
        found = page.ask("DOM.querySelectorAll", nodeId=document, selector="tbody tr")["nodeIds"]
        assert len(found) > 5
        buttons = page.ask("DOM.querySelectorAll", nodeId=document, selector="th button")
        assert buttons["nodeIds"] == []
    finally:
        page.ask("Emulation.setScriptExecutionDisabled", value=False)
