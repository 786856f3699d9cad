// SPDX-License-Identifier: MIT OR Apache-2.0
"use strict";
// Sorts and filters the table of results. Without this script the page shows every row in the order of the report.
for (const results of document.querySelectorAll(".results")) {
  const table = results.querySelector("table");
  const controls = results.querySelector(".controls");
  if (!controls) continue;
  const text = controls.querySelector("input[type=search]");
  const metric = controls.querySelector("select.metric");
  const order = controls.querySelector("select.order");
  const toggles = [...controls.querySelectorAll("button[aria-pressed]")];
  const status = controls.querySelector("[role=status]");
  const empty = results.querySelector(".no-row");
  const bodies = [...table.tBodies];
  const rows = bodies.filter((each) => !each.classList.contains("group"));
  const groups = bodies.filter((each) => each.classList.contains("group"));
  const heads = [...table.tHead.querySelectorAll("th[data-key]")];
  const numeric = new Set(["before", "after", "ratio", "width"]);
  let sorted = { key: "", down: false };

  const value = (row, key) => {
    const found = row.getAttribute(`data-${key}`) ?? "";
    return numeric.has(key) ? (found === "" ? null : Number(found)) : found.toLowerCase();
  };
  const compare = (key, sign) => (one, other) => {
    const a = value(one, key), b = value(other, key);
    if (a === b) return rows.indexOf(one) - rows.indexOf(other);
    if (a === null) return 1;  // rows without a number come last in both directions
    if (b === null) return -1;
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));
  };

  function filter() {
    const wanted = text.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const verdicts = new Set(toggles.filter((each) => each.getAttribute("aria-pressed") === "true").map((each) => each.value));
    const alive = new Set();
    let shown = 0;
    for (const row of rows) {
      const words = row.dataset.text.toLowerCase();
      row.hidden = !wanted.every((word) => words.includes(word)) || (verdicts.size > 0 && !verdicts.has(row.dataset.verdict))
        || (metric.value !== "" && metric.value !== row.dataset.group);
      if (!row.hidden) { shown += 1; alive.add(row.dataset.group); }
    }
    for (const each of groups) each.hidden = sorted.key !== "" || !alive.has(each.dataset.group);
    status.textContent = `${shown} of ${rows.length} rows`;
    empty.hidden = shown > 0;
  }

  function sort(key, down) {
    sorted = { key, down };
    for (const head of heads) {
      head.setAttribute("aria-sort", head.dataset.key !== key ? "none" : down ? "descending" : "ascending");
    }
    order.value = key ? `${key} ${down ? "down" : "up"}` : "";
    const wanted = key ? [...rows].sort(compare(key, down ? -1 : 1)) : bodies;
    table.append(...wanted);
    results.classList.toggle("sorted", key !== "");  // shows each row's metric, because the groups' headings are hidden
    filter();
  }

  function reset() {
    text.value = "";
    metric.value = "";
    for (const each of toggles) each.setAttribute("aria-pressed", "false");
    sort("", false);
  }

  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    // Up, down, then the order of the report again.
    button.addEventListener("click", () => {
      if (sorted.key !== head.dataset.key) sort(head.dataset.key, false);
      else if (!sorted.down) sort(head.dataset.key, true);
      else sort("", false);
    });
    for (const [direction, name] of [["up", "ascending"], ["down", "descending"]]) {
      order.add(new Option(`${head.dataset.name}, ${name}`, `${head.dataset.key} ${direction}`));
    }
  }
  for (const each of toggles) {
    each.addEventListener("click", () => {
      each.setAttribute("aria-pressed", String(each.getAttribute("aria-pressed") !== "true"));
      filter();
    });
  }
  text.addEventListener("input", filter);
  metric.addEventListener("change", filter);
  order.addEventListener("change", () => {
    const [key, direction] = order.value.split(" ");
    sort(key || "", direction === "down");
  });
  controls.querySelector("button.reset").addEventListener("click", reset);
  controls.addEventListener("submit", (event) => event.preventDefault());
  // A link to a metric must find its rows, whatever is sorted or filtered.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && groups.some((each) => `#${each.id}` === link.getAttribute("href"))) reset();
  });
  controls.hidden = false;
  filter();
}
