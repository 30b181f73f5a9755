// Live sections, charts and the drawer. The page is whole without it.
"use strict";

const link = document.getElementById("link");
const said = link.querySelector(".said");
const pause = link.querySelector(".pause");
const say = (text, lost) => {
  link.classList.toggle("lost", !!lost);
  if (said.textContent !== text) said.textContent = text;
};

// become makes one element like another and keeps what is the same of it, so
// that focus, selection and scroll positions stay. Children with a data-key are
// matched by it, others by their place.
function become(old, next) {
  for (const { name, value } of [...next.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  const keyed = new Map();
  for (const c of old.children) if (c.dataset.key) keyed.set(c.dataset.key, c);
  let at = old.firstChild;
  for (const want of [...next.childNodes]) {
    const key = want.dataset?.key;
    let have = key ? keyed.get(key) : at;
    if (key && have) keyed.delete(key);
    if (!have || have.nodeName !== want.nodeName || (!key && have.dataset?.key)) {
      old.insertBefore(want, at);
      continue;
    }
    if (have === at) at = at.nextSibling;
    else old.insertBefore(have, at);
    if (want.nodeType === Node.ELEMENT_NODE) become(have, want);
    else if (have.nodeValue !== want.nodeValue) have.nodeValue = want.nodeValue;
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function section(html) {
  const next = new DOMParser().parseFromString(html, "text/html").body.firstElementChild;
  const old = next && document.getElementById(next.id);
  if (old) become(old, next);
}

// The charts: what each draws of the numbers, on which scale.
const ms = (v) => (v == null ? "–" : v < 0.0995 ? (v * 1e3).toFixed(1) + " ms" : v < 0.9995 ? (v * 1e3).toFixed(0) + " ms" : v.toFixed(v < 99.5 ? 2 : 0) + " s");
const percent = (v) => (v == null ? "–" : (v * 100).toFixed(0) + " %");
const plain = (v) => (v == null ? "–" : v >= 100 ? v.toFixed(0) : +v.toFixed(1) + "");
const figures = {
  ttft: { lines: [["forecast", "forecast", "ttft_forecast"], ["measured", "actual", "ttft_actual"]], text: ms, dashed: true },
  tpot: { lines: [["forecast", "forecast", "tpot_forecast"], ["measured", "actual", "tpot_actual"]], text: ms, dashed: true },
  coverage: { lines: [["TTFT", "forecast", "ttft_coverage"], ["TPOT", "actual", "tpot_coverage"]], text: percent, range: (u, low) => [Math.min(0.5, low ?? 1), 1], target: 0.9 },
  spilled: { lines: [["opened", "forecast", "spilled"]], text: plain },
  decisions: { lines: [["forecasts", "forecast", "forecasts"], ["fallback", "actual", "fallback"], ["shed", "shed", "shed"]], text: plain },
};

let numbers = null;
const drawn = new Map();

function draw() {
  const some = numbers?.began?.length > 0;
  document.querySelector("#charts .drawn").hidden = !some;
  document.querySelector("#charts .nothing").hidden = some;
  if (!some) return;
  for (const figure of document.querySelectorAll("[data-chart]")) {
    const f = figures[figure.dataset.chart];
    const data = [numbers.began, ...f.lines.map((l) => numbers[l[2]])];
    const chart = drawn.get(figure);
    if (chart) chart.setData(data);
    else drawn.set(figure, plot(figure, f, data));
    legend(figure, f, data, data[0].length - 1);
  }
}

function legend(figure, f, data, i) {
  const out = figure.querySelector(".legend");
  out.replaceChildren(...f.lines.map(([name, kind], j) => {
    const item = document.createElement("span");
    item.className = "s-" + kind;
    item.append(document.createElement("i"), name + " " + f.text(data[j + 1][i]));
    return item;
  }), new Date(data[0][i] * 1000).toISOString().slice(11, 19));
}

function plot(figure, f, data) {
  const box = figure.querySelector(".chart");
  const css = getComputedStyle(document.documentElement);
  const color = (name) => css.getPropertyValue("--" + name).trim();
  const axis = { stroke: color("dim"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  return new uPlot({
    width: box.clientWidth,
    height: 180,
    tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "UTC"),
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    scales: { y: { range: f.range ?? ((u, low, high) => [0, high > 0 ? high * 1.1 : 1]) } },
    axes: [
      { ...axis, size: 26, values: (u, ticks) => ticks.map((t) => new Date(t * 1000).toISOString().slice(11, 16)), incrs: [60, 300, 600, 900, 1800], space: 55 },
      { ...axis, size: 58, values: (u, ticks) => ticks.map(f.text) },
    ],
    series: [{}, ...f.lines.map(([, kind]) => ({ stroke: color(kind), width: 1.6, dash: f.dashed && kind === "forecast" ? [5, 3] : [], points: { show: data[0].length < 3 } }))],
    hooks: {
      setCursor: [(u) => legend(figure, f, u.data, u.cursor.idx ?? u.data[0].length - 1)],
      drawAxes: f.target == null ? [] : [(u) => {
        const y = u.valToPos(f.target, "y", true), c = u.ctx;
        c.save();
        c.strokeStyle = color("dim");
        c.setLineDash([6, 5]);
        c.beginPath();
        c.moveTo(u.bbox.left, y);
        c.lineTo(u.bbox.left + u.bbox.width, y);
        c.stroke();
        c.restore();
      }],
    },
  }, data, box);
}

function redraw() {
  for (const chart of drawn.values()) chart.destroy();
  drawn.clear();
  draw();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new ResizeObserver(() => {
  for (const [figure, chart] of drawn) {
    const width = figure.querySelector(".chart").clientWidth;
    if (width > 0 && width !== chart.width) chart.setSize({ width, height: 180 });
  }
}).observe(document.querySelector("#charts"));

// The events.
let source = null, heard = 0;

function follow() {
  source = new EventSource("events?llm=" + encodeURIComponent(link.dataset.llm));
  source.addEventListener("section", (e) => section(e.data));
  source.addEventListener("charts", (e) => { numbers = JSON.parse(e.data); draw(); });
  source.addEventListener("time", (e) => {
    heard = Date.now();
    link.dataset.at = e.data.slice(11, 19);
    say("live");
    drawerNews();
  });
}

function quiet() {
  source?.close();
  source = null;
}

function watch() {
  if (source && heard && Date.now() - heard > 4000) {
    say("no news since " + link.dataset.at + " UTC; trying again", true);
    if (source.readyState === EventSource.CLOSED) {
      quiet();
      follow();
    }
  }
}
setInterval(watch, 1000);

pause.hidden = false;
pause.addEventListener("click", () => {
  const on = pause.getAttribute("aria-pressed") !== "true";
  pause.setAttribute("aria-pressed", on);
  if (on) {
    quiet();
    say("paused at " + (link.dataset.at ?? "the start") + " UTC");
  } else {
    say("connecting");
    follow();
  }
});
document.addEventListener("visibilitychange", () => {
  if (pause.getAttribute("aria-pressed") === "true") return;
  if (document.hidden) quiet();
  else if (!source) follow();
});

// The drawer.
const drawer = document.getElementById("drawer");
const inside = drawer.querySelector(".body");
let explained = null;

async function show(href) {
  let page;
  try {
    const answer = await fetch(href, { cache: "no-store" });
    page = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  } catch {
    page = null; // the router is gone
  }
  if (explained !== href) return; // another was asked for meanwhile, or none
  if (!page) {
    page = document.createElement("main");
    page.textContent = "The router does not answer.";
  }
  const next = document.createElement("div");
  next.className = "body";
  next.append(...page.childNodes);
  become(inside, next);
  if (!drawer.open) drawer.showModal();
}

document.addEventListener("click", (e) => {
  const a = e.target.closest?.("a.explain");
  if (!a || e.ctrlKey || e.metaKey || e.shiftKey || e.button) return;
  e.preventDefault();
  explained = a.href;
  show(explained);
});
drawer.addEventListener("close", () => { explained = null; inside.replaceChildren(); });
drawer.addEventListener("click", (e) => { if (e.target === drawer) drawer.close(); });

// drawerNews looks again at a decision that had not ended.
function drawerNews() {
  if (explained && drawer.open && inside.querySelector('[data-ended="0"]')) show(explained);
}

say("connecting");
follow();
