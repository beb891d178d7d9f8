"use strict";
/* Sorts tables by a click on the head of a column: ascending, descending, as written. */
(() => {
  const words = new Intl.Collator(document.documentElement.lang, { numeric: true, sensitivity: "base" });
  const number = (cell) => Number(cell.dataset.value.replace("inf", "Infinity"));

  function compared(a, b, direction) {
    const unknown = a.hasAttribute("data-unknown") - b.hasAttribute("data-unknown");
    if (unknown || a.hasAttribute("data-unknown")) return unknown; // last in both directions
    const text = ("value" in b.dataset) - ("value" in a.dataset); // numbers before text
    if (text) return text;
    if (!("value" in a.dataset)) return direction * words.compare(a.textContent, b.textContent);
    const [x, y] = [number(a), number(b)];
    return x === y ? 0 : direction * (x < y ? -1 : 1);
  }

  for (const table of document.querySelectorAll("[data-sorts]")) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    const next = { null: "ascending", ascending: "descending", descending: null };
    heads.forEach((head, column) => {
      if (!head.textContent) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const order = next[head.getAttribute("aria-sort")];
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        if (order) head.setAttribute("aria-sort", order);
        const direction = order === "ascending" ? 1 : -1;
        const rows = [...original];
        if (order) rows.sort((a, b) => compared(a.cells[column], b.cells[column], direction));
        body.append(...rows);
      });
    });
  }
})();
