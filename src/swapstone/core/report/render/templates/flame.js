// SPDX-License-Identifier: MIT OR Apache-2.0
"use strict";
// The drawing: each frame is a button whose width is its share of the frame that is zoomed to.
const data = JSON.parse(document.getElementById("data").textContent);
const [NAME, KIND, BEFORE, AFTER, WIDEST, UNDER] = [0, 1, 2, 3, 4, 5];
const graph = document.getElementById("graph");
const status = document.getElementById("status");
const search = document.getElementById("search");
const colours = document.getElementById("colours");
const width = document.getElementById("width");
const ROW = 19;
const darkness = window.matchMedia("screen and (prefers-color-scheme: dark)");
let zoomed = [data.tree];
let focused = null;

function amount(value) {
  if (Math.abs(value) < 0.001) value = 0; // the rounding error of a difference
  if (data.unit === "ns") {
    for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]])
      if (Math.abs(value) >= size) return (value / size).toPrecision(3) + " " + unit;
    return (value ? value.toPrecision(3) : 0) + " ns";
  }
  const number = Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
  return number + (data.unit === "B" ? " B" : "");
}

function size(node) {
  if (!data.difference) return node[AFTER];
  return width.value === "baseline" ? node[BEFORE] : width.value === "candidate" ? node[AFTER] : node[WIDEST];
}

function colour(node) {
  if (data.difference && colours.value === "difference") {
    const most = Math.max(node[BEFORE], node[AFTER]);
    const dark = darkness.matches;
    if (!most) return dark ? "hsl(0 0% 22%)" : "hsl(0 0% 92%)";
    const change = (node[AFTER] - node[BEFORE]) / most;
    const whole = Math.max(data.tree[BEFORE], data.tree[AFTER]);
    const weight = Math.min(1, Math.abs(node[AFTER] - node[BEFORE]) / whole * 8);
    const strength = Math.abs(change) * (0.25 + 0.75 * weight);
    const hue = change > 0 ? 8 : 212;
    // Letters of each scheme keep a contrast of 4.5 on every colour.
    return dark ? `hsl(${hue} ${20 + 50 * strength}% ${20 + 14 * strength}%)` : `hsl(${hue} 85% ${94 - 34 * strength}%)`;
  }
  const kind = data.kinds[node[KIND]];
  let hash = 0;
  for (const letter of kind.split(" ")[0]) hash = (hash * 31 + letter.charCodeAt(0)) % 360;
  return darkness.matches ? `hsl(${(hash * 47) % 360} 45% 26%)` : `hsl(${(hash * 47) % 360} 60% 78%)`;
}

function words(node) {
  const kind = data.kinds[node[KIND]];
  const parts = [node[NAME]];
  if (data.difference) {
    const gap = node[AFTER] - node[BEFORE];
    parts.push(`baseline ${amount(node[BEFORE])}, candidate ${amount(node[AFTER])}, ${gap >= 0 ? "+" : ""}${amount(gap)} in one operation`);
    if (!node[BEFORE]) parts.push("on the candidate only");
    if (!node[AFTER]) parts.push("on the baseline only");
  } else {
    parts.push(`${amount(node[AFTER])} in one operation, ${(100 * node[AFTER] / (data.tree[AFTER] || 1)).toFixed(1)} %`);
  }
  if (kind) parts.push(kind);
  return parts.join("; ");
}

function matches(node) {
  const text = search.value.trim().toLowerCase();
  return text && (node[NAME].toLowerCase().includes(text) || data.kinds[node[KIND]].toLowerCase().includes(text));
}

function draw() {
  const room = graph.clientWidth;
  const pieces = document.createDocumentFragment();
  let deepest = 0;
  const put = (node, path, depth, left, wide) => {
    if (wide < 0.4) return;
    deepest = Math.max(deepest, depth);
    const box = document.createElement("button");
    box.type = "button";
    box.className = matches(node) ? "frame hit" : "frame";
    box.style.cssText = `left:${left}px;top:${depth * ROW}px;width:${Math.max(0.4, wide - 0.5)}px;background:${colour(node)}`;
    if (wide > 28) box.textContent = node[NAME];
    box.setAttribute("aria-label", words(node));
    box.tabIndex = -1;
    box.node = node;
    box.path = path;
    pieces.append(box);
  };
  const walk = (node, path, depth, left, wide) => {
    put(node, path, depth, left, wide);
    let at = left;
    const whole = size(node);
    for (const child of node[UNDER]) {
      const share = whole ? wide * size(child) / whole : 0;
      if (share >= 0.4) walk(child, [...path, child], depth + 1, at, share);
      at += share;
    }
  };
  zoomed.slice(0, -1).forEach((node, depth) => put(node, zoomed.slice(0, depth + 1), depth, 0, room));
  walk(zoomed[zoomed.length - 1], zoomed, zoomed.length - 1, 0, room);
  graph.replaceChildren(pieces);
  graph.style.height = `${(deepest + 1) * ROW}px`;
  const again = [...graph.children].find((box) => box.node === focused) || graph.children[zoomed.length - 1];
  if (again) again.tabIndex = 0;
  describe();
}

function describe(node) {
  const shown = node || zoomed[zoomed.length - 1];
  let text = words(shown);
  if (search.value.trim()) {
    let before = 0, after = 0;
    const add = (one) => { if (matches(one)) { before += one[BEFORE]; after += one[AFTER]; } else one[UNDER].forEach(add); };
    add(data.tree);
    text += ` | found: ${data.difference ? `baseline ${amount(before)}, candidate ` : ""}${amount(after)}`;
  }
  status.textContent = text;
}

function zoom(path) {
  zoomed = path;
  focused = path[path.length - 1];
  draw();
  const box = [...graph.children].find((one) => one.node === focused);
  if (box) box.focus();
}

function neighbour(box, key) {
  const boxes = [...graph.children];
  const depth = box.path.length;
  if (key === "ArrowUp") return boxes.find((one) => one.node === box.path[depth - 2]);
  if (key === "ArrowDown") return boxes.find((one) => one.path.length === depth + 1 && one.path[depth - 1] === box.node);
  const level = boxes.filter((one) => one.path.length === depth);
  return level[level.indexOf(box) + (key === "ArrowRight" ? 1 : -1)];
}

graph.addEventListener("click", (event) => { if (event.target.node) zoom(event.target.path); });
graph.addEventListener("mouseover", (event) => { if (event.target.node) { describe(event.target.node); event.target.title = words(event.target.node); } });
graph.addEventListener("mouseleave", () => describe());
graph.addEventListener("focusin", (event) => { if (event.target.node) { focused = event.target.node; describe(focused); } });
graph.addEventListener("keydown", (event) => {
  const box = event.target;
  if (!box.node) return;
  if (event.key.startsWith("Arrow")) {
    const other = neighbour(box, event.key);
    if (other) { box.tabIndex = -1; other.tabIndex = 0; other.focus(); }
    event.preventDefault();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    if (search.value) { search.value = ""; draw(); } else zoom(zoomed.length > 1 ? zoomed.slice(0, -1) : zoomed);
  }
  if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); }
});
search.addEventListener("input", draw);
for (const control of [colours, width]) if (control) control.addEventListener("change", draw);
document.getElementById("reset").addEventListener("click", () => zoom([data.tree]));
window.addEventListener("resize", draw);
darkness.addEventListener("change", draw);
draw();
