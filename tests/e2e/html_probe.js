// SPDX-License-Identifier: MIT OR Apache-2.0
"use strict";
/* global PAGES: the reports by name */
// Runs in a page that holds the reports in frames, one after another, and prints what the browser made of them as JSON.

const box = (each) => { const r = each.getBoundingClientRect(); return { left: r.left, top: r.top, right: r.right, bottom: r.bottom }; };
const name = (each) => `${each.tagName.toLowerCase()}.${each.getAttribute("class") || ""} ${(each.textContent || "").trim().slice(0, 40)}`;
const visible = (each) => each.getClientRects().length > 0 && each.checkVisibility() && !each.closest(".vh");

function luminance(colour) {
  const [red, green, blue] = colour.match(/[\d.]+/g).slice(0, 3).map((part) => {
    const share = Number(part) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;  // WCAG 2.2
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one, other) {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

function background(page, each) {
  for (let at = each; at; at = at.parentElement) {
    const colour = page.defaultView.getComputedStyle(at).backgroundColor;
    if (!/^rgba\(.*, 0\)$/.test(colour)) return colour;
  }
  return "rgb(255, 255, 255)";
}

function faintest(page) {
  let worst = { ratio: 99, what: "" };
  for (const each of page.body.querySelectorAll("*")) {
    const own = [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !visible(each) || ["SCRIPT", "STYLE", "TITLE", "OPTION", "title", "desc"].includes(each.tagName)) continue;
    const style = page.defaultView.getComputedStyle(each);
    const ratio = contrast(each.tagName === "text" ? style.fill : style.color, background(page, each.closest("svg") || each));
    if (ratio < worst.ratio) worst = { ratio, what: name(each) };
  }
  return worst;
}

function measured(page) {
  const root = page.documentElement, style = page.defaultView.getComputedStyle(page.body);
  page.querySelectorAll("details").forEach((each) => { each.open = true; });
  const outside = [...page.body.querySelectorAll("*")].filter((each) => {
    if (!visible(each) || each.closest(".scroll") || (each.ownerSVGElement && each.tagName !== "text")) return false;
    const holder = each.parentElement.closest("section, header, .side") || page.body;
    return box(each).right > Math.min(root.clientWidth, box(holder).right) + 1;
  }).map(name);
  const scrolled = [...page.querySelectorAll(".scroll")].filter((each) => each.scrollWidth > each.clientWidth).map((each) => {
    each.scrollLeft = 9999;
    const key = each.querySelector("tbody th");
    const stays = key === null || Math.abs(box(key).left - box(each).left) <= 1;
    each.scrollLeft = 0;
    return { title: each.getAttribute("aria-label"), stays, within: box(each).right <= root.clientWidth };
  });
  const drawings = [...page.querySelectorAll(".drawing svg[role=img]")].filter(visible).map((each) => ({
    name: each.getAttribute("class"), box: box(each), title: each.querySelector("title")?.textContent ?? "",
    described: each.querySelector("desc")?.textContent ?? "",
    scale: each.getBoundingClientRect().width / each.viewBox.baseVal.width,
    texts: [...each.querySelectorAll("text")].map((text) => ({ text: text.textContent, ...box(text) })),
  }));
  // On a narrow page a cell is a grid whose first column has the name of the table's column.
  const cells = [...page.querySelectorAll(".beside td")].filter((each) => page.defaultView.getComputedStyle(each).display === "grid");
  const misplaced = cells.flatMap((cell) => [...cell.querySelectorAll("span")].filter(visible)
    .filter((each) => box(each).left < box(cell).left + 50).map(name));
  return {
    cells: cells.length, misplaced,
    client: root.clientWidth, scroll: root.scrollWidth, paper: style.backgroundColor, ink: style.color, outside, scrolled, drawings,
    loaded: page.defaultView.performance.getEntriesByType("resource").length,
    dots: [...page.querySelectorAll(".forest .effect")].filter(visible).length,
    rows: [...page.querySelectorAll(".results tbody:not(.group) tr.main")].filter(visible).length,
    runs: [...page.querySelectorAll("tr.runs")].filter(visible).length,
    controls: [...page.querySelectorAll(".controls")].filter(visible).length,
    side: [...page.querySelectorAll(".side nav")].filter(visible).map((each) => page.defaultView.getComputedStyle(each).position)[0] ?? "",
    faintest: faintest(page),
  };
}

function used(page) {
  const view = page.defaultView;
  const shown = () => [...page.querySelectorAll(".results:has(.controls) tbody:not(.group)")].filter(visible);
  const groups = () => [...page.querySelectorAll(".results tbody.group")].filter(visible).length;
  const head = page.querySelector(".results:has(.controls) th[data-key=ratio]"), button = head.querySelector("button");
  const ratios = () => shown().map((each) => each.dataset.ratio).filter(Boolean).map(Number);
  const found = { all: shown().length, groups: groups(), hidden: [...page.querySelectorAll("tr.runs")].filter(visible).length };
  button.focus();
  found.focused = page.activeElement === button;
  button.click();
  Object.assign(found, { up: head.getAttribute("aria-sort"), ascending: ratios(), sortedGroups: groups() });
  found.metrics = [...page.querySelectorAll("td.metric-column")].filter(visible).length;
  button.click();
  Object.assign(found, { down: head.getAttribute("aria-sort"), descending: ratios() });
  button.click();
  Object.assign(found, { none: head.getAttribute("aria-sort"), groupsAgain: groups() });
  const text = page.querySelector(".controls input");
  text.value = "STRING res";
  text.dispatchEvent(new view.Event("input"));
  found.filtered = shown().map((each) => `${each.dataset.name} ${each.dataset.metric}`);
  found.status = page.querySelector(".controls [role=status]").textContent;
  text.value = "";
  text.dispatchEvent(new view.Event("input"));
  page.querySelector(".toggles button[value=better]").click();
  found.verdicts = [...new Set(shown().map((each) => each.dataset.verdict))];
  page.querySelector(".contents a[href='#rows-2']").click();
  found.reset = shown().length;
  return found;
}

async function run(cases) {
  const seen = {};
  for (const { key, page, width, scripts, use } of cases) {
    const frame = document.createElement("iframe");
    frame.style.cssText = `width:${width}px;height:900px;border:0`;
    if (!scripts) frame.sandbox = "allow-same-origin";
    const loaded = new Promise((done) => { frame.onload = done; });
    frame.srcdoc = PAGES[page];
    document.body.append(frame);
    await loaded;
    try {
      seen[key] = { ...(use ? { used: used(frame.contentDocument) } : {}), ...measured(frame.contentDocument) };
    } catch (error) {
      seen[key] = { error: String(error.stack) };
    }
    frame.remove();
  }
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = JSON.stringify(seen);
  document.body.replaceChildren(out);
}
