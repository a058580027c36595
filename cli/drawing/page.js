"use strict";
// The page's data: title, python (whether some operation runs there), stages of {name, note, body,
// width, height, boxes, changes}; a box holds title, label, details (rows of title and text), time or
// null, share of the total, and why it runs in Python (or nothing).
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const svg = $("graph"), view = $("view");
let stage = -1, group = null, at = { x: 0, y: 0, k: 1 }, hits = [], hit = -1;

function element(tag, text, parent) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function apply() {
  if (!group) return;
  group.setAttribute("transform", `translate(${at.x},${at.y}) scale(${at.k})`);
  svg.classList.toggle("far", at.k < 0.3);
  const thin = (0.8 / at.k).toPrecision(2);
  if (group.style.getPropertyValue("--thin") !== thin) group.style.setProperty("--thin", thin);
}

function fit() {
  whole();
  const s = data.stages[stage], w = view.clientWidth;
  // A long chain of which nothing would be seen begins readable, at its top.
  if (at.k < 0.06) {
    const wide = Math.max(0.8, Math.min(1, w / s.width));
    const first = group.querySelector(".box").getAttribute("transform").match(/[\d.]+/)[0];
    const middle = s.width * wide <= w ? s.width / 2 : +first + 60;
    at = { k: wide, x: w / 2 - middle * wide, y: 0 };
    apply();
  }
}

function whole() {
  const s = data.stages[stage], w = view.clientWidth, h = view.clientHeight;
  const k = Math.min(w / s.width, h / s.height, 1.2);
  at = { k, x: (w - s.width * k) / 2, y: (h - s.height * k) / 2 };
  apply();
}

function zoom(factor, x, y) {
  const k = Math.min(4, Math.max(0.01, at.k * factor));
  at = { k, x: x - (x - at.x) * (k / at.k), y: y - (y - at.y) * (k / at.k) };
  apply();
}

function show(number) {
  if (number === stage) return;
  stage = number;
  const template = $(`stage-${number}`);
  svg.querySelector("#scene")?.remove();
  // A template is inert: stages that nobody looks at are never laid out or drawn.
  group = template.content.querySelector("g").cloneNode(true);
  group.id = "scene";
  svg.append(group);
  document.querySelectorAll("nav button").forEach((b, n) => b.classList.toggle("on", n === number));
  document.querySelector("nav .on").scrollIntoView({ block: "nearest" });
  heat();
  data.stages[number].boxes.forEach((b, n) => {
    if (b.python) group.querySelector(`[data-box="${n}"]`).classList.add("python");
  });
  fit();
  search();
  overview();
}

function heat() {
  const times = data.stages[stage].boxes;
  for (const box of group.querySelectorAll(".box")) {
    const share = times[+box.dataset.box].share;
    if (share < 0.005) continue;
    const frame = box.querySelector("rect"), bar = frame.cloneNode();
    bar.setAttribute("class", "heat");
    bar.setAttribute("height", 4);
    bar.setAttribute("rx", 2);
    bar.setAttribute("width", Math.max(2, share * frame.getAttribute("width")));
    frame.after(bar);
  }
}

function overview() {
  const panel = $("panel"), s = data.stages[stage];
  panel.replaceChildren();
  element("h2", s.name, panel);
  element("p", s.note, panel);
  if (s.changes.length) {
    element("h2", "rewrites", panel);
    const list = element("ul", undefined, panel);
    for (const text of s.changes) element("li", text, list);
  }
  element("p", "Click a box for its attributes and shapes.", panel);
  if (stage > 0) element("p", "A thick border: new or changed by this pass.", panel);
  const hosts = s.boxes.filter((b) => b.python);
  if (data.python && hosts.length) {
    element("h2", "runs in Python", panel);
    element("p", "No native code was generated for these operations:", panel);
    const list = element("ul", undefined, panel);
    for (const b of hosts) element("li", `${b.title} ${b.label}: ${b.python}`, list);
  } else if (data.python === false) {
    element("p", "Every operation of the compiled model runs in native code.", panel);
  }
  if (s.boxes.some((b) => b.share)) {
    element("p", "A red bar: the share of the run's time, of the step that computes it.", panel);
  }
}

function select(number) {
  group.querySelectorAll(".on, .near").forEach((e) => e.classList.remove("on", "near"));
  if (number === null) return overview();
  const panel = $("panel"), box = data.stages[stage].boxes[number];
  group.querySelector(`[data-box="${number}"]`).classList.add("on");
  group.querySelectorAll(`.edge[data-from="${number}"], .edge[data-to="${number}"]`)
    .forEach((e) => e.classList.add("near"));
  panel.replaceChildren();
  element("h2", box.title, panel);
  const list = element("dl", undefined, panel);
  const rows = box.time === null ? [] : [["time", box.time]];
  if (box.python) rows.push(["runs in Python", box.python]);
  rows.push(...box.details);
  for (const [title, text] of rows) {
    element("dt", title, list);
    element("dd", text, list);
  }
}

function centre(number) {
  const box = group.querySelector(`[data-box="${number}"]`);
  const [x, y] = box.getAttribute("transform").match(/-?[\d.]+/g).map(Number);
  const frame = box.querySelector("rect"), k = Math.max(at.k, 0.8);
  at = {
    k,
    x: view.clientWidth / 2 - (x + frame.getAttribute("width") / 2) * k,
    y: view.clientHeight / 2 - (y + frame.getAttribute("height") / 2) * k,
  };
  apply();
}

function search() {
  const text = $("search").value.trim().toLowerCase();
  group.querySelectorAll(".hit").forEach((e) => e.classList.remove("hit"));
  hits = [];
  hit = -1;
  if (text) {
    data.stages[stage].boxes.forEach((box, n) => {
      if (box.words.includes(text)) hits.push(n);
    });
    for (const n of hits) group.querySelector(`[data-box="${n}"]`).classList.add("hit");
  }
  $("found").textContent = text ? `${hits.length} found` : "";
}

function next(step) {
  if (!hits.length) return;
  hit = (hit + step + hits.length) % hits.length;
  $("found").textContent = `${hit + 1} of ${hits.length}`;
  centre(hits[hit]);
  select(hits[hit]);
}

function turn(step) {
  let n = stage + step;
  while (data.stages[n] && data.stages[n].same) n += step;
  if (data.stages[n]) show(n);
}

let drag = null;
view.addEventListener("pointerdown", (e) => {
  drag = { x: e.clientX, y: e.clientY, from: { ...at }, moved: false, target: e.target };
  view.setPointerCapture(e.pointerId);
});
view.addEventListener("pointermove", (e) => {
  if (!drag) return;
  const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
  if (Math.abs(dx) + Math.abs(dy) > 3) drag.moved = true;
  if (!drag.moved) return;
  view.classList.add("drag");
  at = { ...drag.from, x: drag.from.x + dx, y: drag.from.y + dy };
  apply();
});
view.addEventListener("pointerup", () => {
  view.classList.remove("drag");
  if (drag && !drag.moved) {
    const box = drag.target.closest(".box");
    select(box ? +box.dataset.box : null);
  }
  drag = null;
});
view.addEventListener("wheel", (e) => {
  e.preventDefault();
  const frame = view.getBoundingClientRect();
  const step = e.deltaMode === 1 ? 20 : 1;
  zoom(Math.exp(-e.deltaY * step * 0.0015), e.clientX - frame.left, e.clientY - frame.top);
}, { passive: false });
$("search").addEventListener("input", search);
$("search").addEventListener("keydown", (e) => {
  if (e.key === "Enter") next(e.shiftKey ? -1 : 1);
});
$("fit").addEventListener("click", whole);
$("in").addEventListener("click", () => zoom(1.3, view.clientWidth / 2, view.clientHeight / 2));
$("out").addEventListener("click", () => zoom(1 / 1.3, view.clientWidth / 2, view.clientHeight / 2));
document.addEventListener("keydown", (e) => {
  if (e.target.tagName === "INPUT") {
    if (e.key === "Escape") e.target.blur();
    return;
  }
  if (e.key === "/") {
    e.preventDefault();
    $("search").focus();
  } else if (e.key === "f") whole();
  else if (e.key === "+" || e.key === "-") {
    zoom(e.key === "+" ? 1.3 : 1 / 1.3, view.clientWidth / 2, view.clientHeight / 2);
  } else if (e.key === "[" || e.key === "]") turn(e.key === "]" ? 1 : -1);
});

data.stages.forEach((s, n) => {
  const button = element("button", s.name, $("stages"));
  element("small", s.note, button);
  button.disabled = s.same;
  button.addEventListener("click", () => show(n));
});
// #stage=2&find=name&box=7&fit opens the page there; links and tests use it. The default is the last
// pass that changed the graph: a stage inside a body of control flow is not a pass.
const wish = new URLSearchParams(location.hash.slice(1));
const newest = data.stages.findLastIndex((s) => !s.same && !s.body);
let first = Math.max(0, Math.min(wish.has("stage") ? Math.trunc(wish.get("stage")) || 0 : newest,
  data.stages.length - 1));
while (data.stages[first].same) first -= 1;
show(first);
if (wish.has("find")) {
  $("search").value = wish.get("find");
  search();
  next(1);
}
if (wish.has("box")) {
  centre(+wish.get("box"));
  select(+wish.get("box"));
}
if (wish.has("fit")) whole();
document.body.dataset.ready = "yes";
