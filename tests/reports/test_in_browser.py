"""Pages in a real browser: mouse, keyboard, screen reader, dark mode, small screen, print, strict policy."""

from __future__ import annotations

import json

import pytest

from cloudgan.reports.page import Page, Section, write
from cloudgan.reports.table import Table

TABLE = "[data-sorts]"
DRAWN = "[...document.querySelectorAll('.chart svg')].filter(svg => svg.checkVisibility())"


@pytest.fixture
def page(browser, sample_page, tmp_path):
    path = tmp_path / "page.html"
    write(sample_page, path)
    browser.show_as()
    browser.open(path)
    return browser


def column(page, number):
    cells = f"document.querySelector('{TABLE}').querySelectorAll('tbody td:nth-child({number})')"
    return page.run(f"[...{cells}].map(cell => cell.textContent)")


def orders(page):
    return page.run(
        f"[...document.querySelector('{TABLE}').querySelectorAll('th')].map(h => h.ariaSort)"
    )


def test_a_click_sorts_by_numbers_and_unknown_stays_last_both_ways(page):
    as_written = column(page, 2)
    assert as_written[1] == "unknown"
    button = f"{TABLE} th:nth-child(2) button"
    page.click(button)
    up = column(page, 2)
    assert orders(page) == [None, "ascending", None, None, None]
    page.click(button)
    down = column(page, 2)
    assert orders(page)[1] == "descending"
    assert up[-1] == down[-1] == "unknown"
    assert up[:-1] == down[-2::-1]
    assert up[1:4] == ["8.75", "12.5", "104.2"]  # as numbers, not as text
    page.click(button)
    assert orders(page)[1] is None
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


@pytest.mark.parametrize(("key", "text"), [("Enter", "\r"), (" ", " ")])
def test_the_keyboard_sorts_one_column_at_a_time(page, key, text):
    page.click(f"{TABLE} th:nth-child(3) button")
    page.run(f"document.querySelector('{TABLE} th:nth-child(1) button').focus()")
    page.press(key, text)
    assert orders(page) == ["ascending", None, None, None, None]
    names = column(page, 1)
    assert names.index("Hill 9") < names.index("Hill 10")  # as people count


def spoken(page, role):
    """Names of what a screen reader meets."""
    page.ask("Accessibility.enable")
    nodes = page.ask("Accessibility.getFullAXTree")["nodes"]
    page.ask("Accessibility.disable")
    return [
        node.get("name", {}).get("value", "")
        for node in nodes
        if not node["ignored"] and node["role"]["value"] == role
    ]


def test_controls_tables_and_figures_have_a_name_for_screen_readers(page):
    buttons = spoken(page, "button")
    assert "size (km²)" in [name.rstrip(" ↕") for name in buttons]
    assert all(buttons)
    assert spoken(page, "table") == ["Places, and what is known of them."]  # others are folded away
    figures = [name for name in spoken(page, "image") if name]
    assert figures == [
        "Time against cost of one job",
        "Time for one round, measured and fitted",
        "What the money went to",
    ]


def test_the_data_of_a_plot_can_be_opened_with_the_keyboard_and_sorted(page):
    page.run("document.querySelector('figure summary').focus()")
    page.press("Enter", "\r")
    opened = "document.querySelector('figure details[open] table')"
    assert page.run(f"{opened}.tBodies[0].rows.length") == 20
    page.run(f"{opened}.querySelectorAll('th button')[3].click()")
    costs = page.run(
        f"[...{opened}.tBodies[0].rows].map(row => Number(row.cells[3].dataset.value))"
    )
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


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


@pytest.mark.parametrize(("width", "kind"), [(360, "slim"), (1100, "broad")])
def test_a_screen_gets_the_drawing_made_for_it_and_never_scrolls_sideways(page, width, kind):
    page.show_as(width=width)
    found = page.run("[document.documentElement.scrollWidth, innerWidth]")
    assert found[0] <= found[1] == width
    assert page.run(f"{DRAWN}.length") == 3
    assert page.run(f"{DRAWN}.every(svg => svg.parentElement.className === '{kind}')")
    assert page.run(f"Math.max(...{DRAWN}.map(svg => svg.getBoundingClientRect().right))") <= width
    sizes = f"{DRAWN}.flatMap(svg => [...svg.querySelectorAll('text')])"
    assert page.run(f"Math.min(...{sizes}.map(t => t.getBoundingClientRect().height))") > 9


def test_heads_and_long_texts_wrap_before_a_table_of_a_cost_page_scrolls(browser, tmp_path):
    row = "node/gcp/g2-standard-4/us-central1/spot/current"
    source = (
        "https://github.com/skypilot-org/skypilot-catalog/blob/006059e0/catalogs/v8/gcp/vms.csv"
    )
    heads = ("name", "start-up and data staging", "first epoch", "checkpoints", "validation")
    tables = (
        Table((*heads, "other program time", "total, cost (USD)"), (("a" * 22, *range(6)),)),
        Table(("price row", "USD", "per", "price of", "source"), ((row, 0.28, "h", "≤453 d", source),)),
        Table(("item", "seconds", "of", "why unknown"), (("idle", 14.2, "billed", "why " * 14),)),
    )  # fmt: skip
    write(Page("Costs", sections=(Section("s", tables),)), tmp_path / "costs.html")
    browser.open(tmp_path / "costs.html")
    browser.show_as(width=1200)
    wide = "[...document.querySelectorAll('.wide')].map(box => box.scrollWidth - box.clientWidth)"
    assert browser.run(wide) == [0, 0, 0]
    lines = "[...document.querySelectorAll('td.r')].map(cell => cell.getClientRects().length)"
    assert set(browser.run(lines)) == {1}, "numbers never wrap"


@pytest.mark.parametrize("selector", ["[data-sorts] th button", "summary"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_keyboard_shows_where_it_is(page, selector, scheme):
    page.show_as(scheme)
    page.press("Tab")
    page.run(f"document.querySelector('{selector}').focus()")
    style, width, colour = page.run(
        "(() => { const s = getComputedStyle(document.activeElement);"
        " return [s.outlineStyle, parseFloat(s.outlineWidth), s.outlineColor]; })()"
    )
    assert (style, width >= 2) == ("solid", True)
    assert colour != page.run("getComputedStyle(document.body).backgroundColor")


def test_nothing_is_loaded_a_name_stays_text_and_the_console_is_empty(page):
    page.click(f"{TABLE} th:nth-child(1) button")
    asked = [one["request"]["url"] for one in page.happened("Network.requestWillBeSent")]
    assert [url.partition(":")[0] for url in asked] == ["file"]
    for event in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
        assert page.happened(event) == []
    assert page.happened("Page.javascriptDialogOpening") == []
    assert page.run("document.scripts.length") == 1
    assert any("</script><script>alert" in name for name in column(page, 1))


def test_injected_scripts_and_requests_are_blocked(page):
    said = page.ask(
        "Runtime.evaluate",
        awaitPromise=True,
        returnByValue=True,
        expression="""new Promise(done => {
          const found = [];
          document.addEventListener('securitypolicyviolation', event => {
            found.push(event.effectiveDirective);
            if (found.length === 3) done(found.sort());
          });
          const script = document.createElement('script');
          script.textContent = 'window.stolen = 1';
          document.body.append(script);
          const picture = document.createElement('img');
          picture.src = 'http://127.0.0.1:9/x.png';
          document.body.append(picture);
          fetch('http://127.0.0.1:9/').catch(() => {});
        })""",
    )
    assert said["result"]["value"] == ["connect-src", "img-src", "script-src-elem"]
    assert page.run("window.stolen") is None


def test_print_has_tables_and_wide_drawings_and_no_controls(page):
    page.show_as("dark", width=360)
    page.ask("Emulation.setEmulatedMedia", media="print")
    try:
        assert page.run("document.querySelector('details').checkVisibility()") is False
        assert page.run(f"document.querySelector('{TABLE}').checkVisibility()") is True
        assert page.run(f"{DRAWN}.every(svg => svg.parentElement.className === 'broad')")
        ink = "getComputedStyle(document.querySelector('.broad svg')).color"
        assert page.run(ink) == "rgb(0, 0, 0)"
    finally:
        page.ask("Emulation.setEmulatedMedia", media="")


def test_on_paper_no_column_of_a_wide_table_is_cut_and_each_sheet_repeats_its_heads(
    browser, tmp_path
):
    columns = ("measure", "where", "untrained", "value", "baseline", "ideal", "widths", "p")
    row = (
        "energy in the first 6 layers",
        "81.33-97.67 deg",
        *["1.446 ± 0.007"] * 3,
        1,
        -0.3,
        0.002,
    )
    write(Page("Wide", sections=(Section("s", (Table(columns, (row,)),)),)), tmp_path / "wide.html")
    browser.show_as(width=650)  # of Letter and A4 without margins: 7.5 and 7.3 inches of 96 pixels
    browser.ask("Emulation.setEmulatedMedia", media="print")
    try:
        browser.open(tmp_path / "wide.html")
        assert browser.run("document.querySelector('table').offsetWidth <= 650")
        contained = "getComputedStyle(document.querySelector('.wide')).containerType"
        assert browser.run(contained) == "normal", "else Chromium draws the heads on one sheet only"
    finally:
        browser.ask("Emulation.setEmulatedMedia", media="")


def test_without_script_the_page_still_shows_its_tables_and_plots(page, sample_page, tmp_path):
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        write(sample_page, tmp_path / "again.html")
        page.open(tmp_path / "again.html")
        document = page.ask("DOM.getDocument", depth=-1)["root"]["nodeId"]

        def count(selector):
            found = page.ask("DOM.querySelectorAll", nodeId=document, selector=selector)
            return len(found["nodeIds"])

        assert count("tbody tr") > 5
        assert count("figure svg") == 6
        assert count("th button") == 0
    finally:
        page.ask("Emulation.setScriptExecutionDisabled", value=False)
