"use strict";
/* Sorts and filters tables, shows tooltips of plots. Text enters the page only as text. */
(() => {
  function make(tag, attributes = {}, text = "") {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    return element;
  }

  /* ---- tables ---- */

  const words = new Intl.Collator(document.documentElement.lang, { numeric: true, sensitivity: "base" });

  function compared(a, b, direction) {
    const unknown = (a.hasAttribute("data-unknown") ? 1 : 0) - (b.hasAttribute("data-unknown") ? 1 : 0);
    if (unknown) return unknown; // last in both directions
    if (a.hasAttribute("data-unknown")) return 0;
    const numbers = [a, b].map((cell) => cell.hasAttribute("data-value"));
    if (numbers[0] !== numbers[1]) return numbers[0] ? -1 : 1;
    if (!numbers[0]) return direction * words.compare(a.textContent, b.textContent);
    const [x, y] = [Number(a.dataset.value), Number(b.dataset.value)];
    return x === y ? 0 : direction * (x < y ? -1 : 1);
  }

  function liven(box) {
    const table = box.querySelector("table");
    const body = table.tBodies[0];
    const original = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];

    function sort(column, order) {
      const rows = [...original];
      if (order) {
        const direction = order === "ascending" ? 1 : -1;
        rows.sort((a, b) => compared(a.cells[column], b.cells[column], direction));
      }
      body.append(...rows);
      heads.forEach((head, n) => {
        if (n === column && order) head.setAttribute("aria-sort", order);
        else head.removeAttribute("aria-sort");
      });
    }

    const next = { null: "ascending", ascending: "descending", descending: null };
    heads.forEach((head, column) => {
      const name = head.textContent;
      if (!name) return;
      const button = make("button", { type: "button" }, name);
      button.append(make("span", { class: "arrow", "aria-hidden": "true" }));
      button.addEventListener("click", () => sort(column, next[head.getAttribute("aria-sort")]));
      head.replaceChildren(button);
    });

    const label = make("label", {}, "Filter rows ");
    const field = make("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    const count = make("output", { role: "status" });
    const caption = table.caption ? table.caption.textContent : "";
    if (caption) field.setAttribute("aria-label", `Filter rows: ${caption}`);
    label.append(field);
    const texts = new Map(original.map((row) => [
      row, [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase(),
    ]));
    function filter() {
      const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of original) {
        row.hidden = !wanted.every((word) => texts.get(row).includes(word));
        if (!row.hidden) shown += 1;
      }
      count.textContent = wanted.length
        ? `${shown} of ${original.length} rows`
        : `${original.length} ${original.length === 1 ? "row" : "rows"}`;
    }
    field.addEventListener("input", filter);
    const tools = make("div", { class: "tools" });
    tools.append(label, count);
    box.prepend(tools);
    filter();
  }

  /* ---- plots ---- */

  const REACH = 28; // maximum distance in pixels between pointer and point
  const PATIENCE = 250; // milliseconds until a tooltip closes

  function voice(figure) {
    const drawn = figure.querySelector(".drawn");
    const tip = make("div", { class: "tip", role: "tooltip" });
    tip.hidden = true;
    drawn.append(tip);
    const titles = new Map();
    let current = null;
    let leaving = 0;

    function hide() {
      clearTimeout(leaving);
      tip.hidden = true;
      if (current) current.classList.remove("current");
      current = null;
    }

    function show(point) {
      clearTimeout(leaving);
      if (point === current) return;
      hide();
      current = point;
      point.classList.add("current");
      const [name, ...rest] = titles.get(point).split("\n");
      tip.replaceChildren(make("strong", {}, name), ...rest.map((line) => make("span", {}, line)));
      tip.hidden = false;
      const area = drawn.getBoundingClientRect();
      const at = point.getBoundingClientRect();
      const room = area.width - tip.offsetWidth;
      const left = at.left + at.width / 2 - area.left - tip.offsetWidth / 2;
      const above = at.top - area.top - tip.offsetHeight - 8;
      tip.style.left = `${Math.max(0, Math.min(left, room))}px`;
      tip.style.top = `${above > -at.height ? above : at.bottom - area.top + 8}px`;
    }

    function nearest(svg, points, event) {
      const direct = event.target.closest(".point");
      if (direct) return direct;
      const area = svg.getBoundingClientRect();
      const scale = area.width / svg.viewBox.baseVal.width;
      let best = null;
      let distance = REACH;
      for (const point of points) {
        if (point.hasAttribute("data-off") || point.tagName === "rect") continue;
        const away = Math.hypot(
          area.left + scale * point.dataset.x - event.clientX,
          area.top + scale * point.dataset.y - event.clientY,
        );
        if (away < distance) [best, distance] = [point, away];
      }
      return best;
    }

    const shownOf = (points) => points.filter((point) => !point.hasAttribute("data-off"));

    /* Each drawing is one tab stop; arrow keys move between points. */
    function stop(points) {
      const shown = shownOf(points);
      const kept = shown.find((point) => point.getAttribute("tabindex") === "0") || shown[0];
      for (const point of points) point.setAttribute("tabindex", point === kept ? "0" : "-1");
    }

    function step(points, from, key) {
      const shown = shownOf(points);
      const place = shown.indexOf(from);
      const last = shown.length - 1;
      const to = {
        ArrowRight: Math.min(place + 1, last), ArrowDown: Math.min(place + 1, last),
        ArrowLeft: Math.max(place - 1, 0), ArrowUp: Math.max(place - 1, 0), Home: 0, End: last,
      }[key];
      if (to === undefined) return false;
      from.setAttribute("tabindex", "-1");
      shown[to].setAttribute("tabindex", "0");
      shown[to].focus();
      return true;
    }

    const groups = [...drawn.querySelectorAll(":scope > svg")].map((svg) => {
      const points = [...svg.querySelectorAll(".point")];
      for (const point of points) {
        const title = point.querySelector("title");
        titles.set(point, title.textContent);
        point.setAttribute("aria-label", title.textContent.replaceAll("\n", ", "));
        title.remove(); // suppresses the tooltip of the browser
        point.addEventListener("focus", () => show(point));
        point.addEventListener("blur", hide);
        point.addEventListener("keydown", (event) => {
          if (step(points, point, event.key)) event.preventDefault();
        });
      }
      const follow = (event) => {
        const point = nearest(svg, points, event);
        if (point) show(point);
        else if (current) later();
      };
      svg.addEventListener("pointermove", follow);
      svg.addEventListener("pointerdown", follow);
      svg.addEventListener("pointerleave", (event) => {
        if (event.pointerType === "mouse") later();
      });
      stop(points);
      return points;
    });

    function later() {
      clearTimeout(leaving);
      leaving = setTimeout(() => {
        if (current !== document.activeElement) hide();
      }, PATIENCE);
    }
    tip.addEventListener("pointerenter", () => clearTimeout(leaving));
    tip.addEventListener("pointerleave", later);
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hide();
    });
    document.addEventListener("pointerdown", (event) => {
      if (!drawn.contains(event.target)) hide();
    });

    for (const entry of figure.querySelectorAll(".legend li")) {
      const button = make("button", { type: "button", "aria-pressed": "true" });
      button.append(...entry.childNodes);
      button.addEventListener("click", () => {
        const off = button.getAttribute("aria-pressed") === "true";
        button.setAttribute("aria-pressed", String(!off));
        hide();
        for (const part of drawn.querySelectorAll(`[data-series="${entry.dataset.series}"]`)) {
          part.toggleAttribute("data-off", off);
        }
        groups.forEach(stop);
      });
      entry.append(button);
    }
  }

  document.querySelectorAll("[data-rows]").forEach(liven);
  document.querySelectorAll("figure.plot").forEach(voice);
})();
