"""Pages for screen readers, keyboards, small screens, and with a strict security policy."""

from __future__ import annotations

import pytest

from cloudgan.reports.page import write

POINTS = "[...document.querySelectorAll('.drawn .point')].filter(p => p.checkVisibility())"
TABLE = "document.querySelector('[data-rows] table')"


@pytest.fixture
def page(browser, sample_page, tmp_path):
    path = tmp_path / "page.html"
    write(sample_page, path)
    browser.show_as()
    browser.open(path)
    return browser


def later(page, expression):
    """The value of a promise."""
    said = page.ask(
        "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
    )
    assert "exceptionDetails" not in said, said
    return said["result"].get("value")


def spoken(page, *roles):
    """Names and properties of what a screen reader meets."""
    page.ask("Accessibility.enable")
    nodes = page.ask("Accessibility.getFullAXTree")["nodes"]
    page.ask("Accessibility.disable")
    return [
        (node.get("name", {}).get("value", ""), {p["name"]: p["value"].get("value") for p in
                                                 node.get("properties", [])})
        for node in nodes
        if not node["ignored"] and node["role"]["value"] in roles
    ]  # fmt: skip


def test_all_controls_have_an_accessible_name(page):
    buttons = [name for name, _ in spoken(page, "button")]
    assert "size (km²)" in buttons
    assert "Pareto front" in buttons
    assert all(buttons)
    assert [name for name, _ in spoken(page, "searchbox")] == [
        "Filter rows: Places, and what is known of them."
    ]
    tables = [name for name, _ in spoken(page, "table")]
    assert tables == ["Places, and what is known of them."]  # those of plots are folded away


def test_each_point_is_read_aloud_once_with_its_values(page):
    points = [name for name, _ in spoken(page, "image")]
    assert len(points) == page.run(f"{POINTS}.length") > 40
    assert all(points)
    assert any(
        name.startswith("16 x large, time (h): 0.5059, cost (USD): 72.04") for name in points
    )
    assert any("90 % band: 28.31 to 46.19, extrapolated" in name for name in points)
    assert any("whole bar: at least 6.1 (unknown: egress)" in name for name in points)


def test_a_group_of_points_is_named_after_its_plot(page):
    named = [name for name, _ in spoken(page, "group", "SvgRoot")]
    for title in ("Time against cost of one job", "Time for one round, measured and fitted"):
        assert title in named


def test_the_order_of_a_column_is_read_aloud_and_space_changes_it(page):
    page.run(f"{TABLE}.querySelectorAll('th button')[2].focus()")
    orders = []
    for _ in range(3):
        page.press(" ", " ")
        orders.append(page.run(f"{TABLE}.querySelectorAll('th')[2].ariaSort"))
        assert page.run(f"{TABLE}.querySelectorAll('[aria-sort]').length") == (
            orders[-1] is not None
        )
    assert orders == ["ascending", "descending", None]


def test_one_column_is_in_order_at_a_time(page):
    for number in (0, 3):
        page.run(f"{TABLE}.querySelectorAll('th button')[{number}].click()")
    found = page.run(f"[...{TABLE}.querySelectorAll('th')].map(head => head.ariaSort)")
    assert found == [None, None, None, "ascending", None]


def test_rows_that_the_filter_hides_stay_hidden_while_others_are_put_in_order(page):
    page.run("document.querySelector('[data-rows] input').focus()")
    page.type("hill")
    page.run(f"{TABLE}.querySelectorAll('th button')[2].click()")
    rows = f"[...{TABLE}.tBodies[0].rows].filter(row => !row.hidden)"
    assert page.run(f"{rows}.map(row => row.cells[0].textContent)") == ["Hill 9", "Hill 10"]
    assert page.run(f"{TABLE}.tBodies[0].rows.length") == 5


def test_the_data_of_a_plot_can_be_opened_sorted_and_read(page):
    page.run("document.querySelector('figure summary').focus()")
    page.press("Enter", "\r")
    opened = "document.querySelector('figure details[open] table')"
    assert page.run(f"{opened}.tBodies[0].rows.length") == 30
    page.run(f"{opened}.querySelectorAll('th button')[2].click()")
    costs = page.run(
        f"[...{opened}.tBodies[0].rows].map(row => Number(row.cells[2].dataset.value))"
    )
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


@pytest.mark.parametrize("selector", ["[data-rows] th button", ".legend button", "summary"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_keyboard_shows_where_it_is(page, selector, scheme):
    page.show_as(scheme)
    page.run(f"document.querySelector('{selector}').focus()")
    page.press("Tab")
    page.run(f"document.querySelector('{selector}').focus()")
    found = page.run(
        "(() => { const s = getComputedStyle(document.activeElement);"
        " return [s.outlineStyle, parseFloat(s.outlineWidth), s.outlineColor]; })()"
    )
    assert found[0] == "solid"
    assert found[1] >= 2
    assert found[2] != page.run("getComputedStyle(document.body).backgroundColor")


def test_the_current_point_is_outlined(page):
    width = f"parseFloat(getComputedStyle({POINTS}[0]).strokeWidth)"
    before = page.run(width)
    page.run(f"{POINTS}[0].focus()")
    assert page.run(width) > before + 1


def test_the_words_of_a_point_go_when_the_pointer_leaves_and_stay_while_it_is_on_them(page):
    page.point_at("figure.plot .broad .point")
    tip = "document.querySelector('.tip')"
    assert page.run(f"{tip}.hidden") is False
    gone = f"new Promise(done => setTimeout(() => done({tip}.hidden), 400))"
    x, y = page.run(
        f"(() => {{ const r = {tip}.getBoundingClientRect();"
        " return [r.left + r.width / 2, r.top + r.height / 2]; })()"
    )
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert later(page, gone) is False
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    assert later(page, gone) is True
    page.point_at("figure.plot .broad .point")
    assert page.run(f"{tip}.hidden") is False
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    assert later(page, gone) is True


@pytest.mark.parametrize("width", [360, 1100])
def test_no_words_of_a_point_leave_the_screen_or_widen_the_page(page, width):
    page.show_as(width=width)
    worst = page.run(f"""(() => {{
      let out = 0;
      for (const point of {POINTS}) {{
        point.focus();
        const tip = [...document.querySelectorAll('.tip')].find(tip => !tip.hidden);
        const box = tip.getBoundingClientRect();
        out = Math.max(out, -box.left, box.right - innerWidth,
                       document.documentElement.scrollWidth - innerWidth);
      }}
      return out;
    }})()""")
    assert worst <= 0


def test_injected_scripts_and_requests_are_blocked(page):
    refused = later(
        page,
        """new Promise(done => {
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
    assert refused == ["connect-src", "img-src", "script-src-elem"]
    assert page.run("window.stolen") is None


def test_print_has_no_controls(page):
    page.ask("Emulation.setEmulatedMedia", media="print")
    try:
        shown = "[...document.querySelectorAll('input, .arrow, details, .tip')]"
        assert page.run(f"{shown}.filter(e => e.checkVisibility()).length") == 0
        assert page.run(f"{TABLE}.checkVisibility()") is True
    finally:
        page.ask("Emulation.setEmulatedMedia", media="")


def test_nothing_on_the_page_moves_by_itself(page):
    page.point_at("figure.plot .broad .point")
    assert page.run("document.getAnimations().length") == 0
