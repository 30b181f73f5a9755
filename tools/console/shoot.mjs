// Looks at the console in headless Chromium: every situation that showcase
// serves, wide and narrow, light and dark. It fails on any error of the console,
// request to elsewhere, page wider than its window, finding of axe, or state that
// is not reached; pictures go to a folder.
//
//   CHROMIUM=/usr/bin/chromium node shoot.mjs SHOWCASE FOLDER [WORD]
//
// SHOWCASE is the built router/console/showcase; WORD looks only at what has it in
// its name.
import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chromium } from "playwright-core";

const [showcase, folder, only = ""] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const server = spawn(showcase, { stdio: ["ignore", "pipe", "inherit"] });
process.on("exit", () => server.kill());
const [line] = await once(server.stdout, "data");
const address = line.toString().trim();
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const faults = [];
let checks = 0;

const views = {
  desktop: { viewport: { width: 1280, height: 900 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 900 }, colorScheme: "dark" },
  narrow: { viewport: { width: 360, height: 740 }, colorScheme: "light", hasTouch: true, isMobile: true },
};

// look opens a page, does what it is told there, and checks what every page
// must hold.
async function look(name, path, view, work = async () => {}, more = {}) {
  if (!name.includes(only)) return;
  const context = await browser.newContext({ ...views[view], reducedMotion: "reduce", ...more.context });
  const page = await context.newPage();
  const fault = (text) => faults.push(`${name}: ${text}`);
  page.on("console", (m) => { if (["error", "warning"].includes(m.type()) && !more.expect?.test(m.text() + m.location().url)) fault(`console: ${m.text()} ${m.location().url}`); });
  page.on("pageerror", (e) => fault(`script: ${e.message}`));
  page.on("request", (r) => { if (!r.url().startsWith(address)) fault(`asks for ${r.url()}`); });
  const must = (ok, text) => { checks++; if (!ok) fault(text); };
  try {
    await page.goto(address + path);
    await work(page, must);
    const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    must(wide <= window, `the page is ${wide} wide in a window of ${window}`);
    if (more.context?.javaScriptEnabled !== false) {
      await page.evaluate(axe);
      const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
      for (const v of found.violations) fault(`axe: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.target.join(" ")).join(" | ")}`);
      checks++;
    }
    await page.screenshot({ path: `${folder}/${name}.png`, fullPage: !more.window });
  } catch (e) {
    fault(e.message.split("\n").slice(0, 3).join(" "));
    await page.screenshot({ path: `${folder}/${name}-failed.png` }).catch(() => {});
  }
  await context.close();
}

const live = (page) => page.waitForFunction(() => document.querySelector("#link .said").textContent === "live");
const charted = async (page, must) => {
  await live(page);
  await page.waitForSelector("#charts .drawn:not([hidden]) canvas");
  must(await page.locator("#charts canvas").count() === 5, "there are not five charts");
  const inked = await page.evaluate(() => [...document.querySelectorAll("#charts canvas")].every((c) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v)));
  must(inked, "a chart is blank");
};

for (const view of Object.keys(views)) {
  await look(`full-${view}`, "/full/", view, charted);
}
await look("fallback-desktop", "/fallback/", "desktop", async (page, must) => {
  await charted(page, must);
  must((await page.locator("#summary .badge.bad").innerText()) === "wrong", "the state is not shown");
  must(await page.locator("#summary .badge.warn", { hasText: "fallback" }).count() === 1, "who decides is not marked as the fallback");
  must(/wrong/.test(await page.locator("#changes tbody tr").first().innerText()), "the change is not the newest");
});
await look("fallback-narrow", "/fallback/", "narrow", charted);
for (const view of ["desktop", "narrow"]) {
  await look(`hundred-${view}`, "/hundred/", view, async (page, must) => {
    await charted(page, must);
    must(await page.locator("#fleet tbody tr").count() === 100, "there are not 100 endpoints");
  });
  await look(`empty-${view}`, "/empty/", view, async (page, must) => {
    await live(page);
    await page.waitForSelector("#charts .nothing:not([hidden])");
    must(await page.locator("text=There are no endpoints").count() === 1, "it does not say that there are no endpoints");
  });
}
await look("empty-bundles", "/empty/bundles", "desktop", async (page, must) => {
  must(/no store/.test(await page.locator(".banner").innerText()), "it does not say that there is no store");
});
await look("away-bundles", "/away/bundles", "desktop", async (page, must) => {
  must(/store does not answer/.test(await page.locator(".banner").innerText()), "it does not say that the store is away");
});
await look("away-decision", "/away/decisions/00000000-0000-7000-8000-000000000000", "desktop", async (page, must) => {
  must(/store does not answer/.test(await page.locator(".banner").innerText()), "it does not say that the store is away");
}, { expect: /502/ });

// The drawer, by keyboard alone; live numbers leave the focus where it is.
for (const view of Object.keys(views)) {
  await look(`drawer-${view}`, "/full/", view, async (page, must) => {
    await live(page);
    const a = page.locator("a.explain").nth(3);
    const href = await a.getAttribute("href");
    await a.focus();
    const rows = await page.locator("#decisions tbody tr").first().getAttribute("data-key");
    await page.waitForFunction((key) => document.querySelector("#decisions tbody tr").dataset.key !== key, rows);
    must(await page.evaluate(() => document.activeElement.getAttribute("href")) === href, "news took the focus away");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#drawer[open] .decision table");
    must(await page.locator("#drawer h3", { hasText: "Candidates" }).count() === 1, "the drawer has no candidates");
    must(await page.locator("#drawer svg.bar rect").count() > 0, "the drawer has no terms of cost");
    must(await page.evaluate(() => document.querySelector("#drawer").contains(document.activeElement)), "the focus is not in the drawer");
    await page.keyboard.press("Escape");
    await page.waitForSelector("#drawer:not([open])", { state: "attached" });
    must(await page.evaluate(() => document.activeElement.getAttribute("href")) === href, "the focus did not come back");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#drawer[open] .decision table");
  }, { window: true });
}
await look("decision-page", "/full/", "desktop", async (page, must) => {
  await page.goto(address + "/full/" + await page.locator("a.explain").first().getAttribute("href"));
  must(await page.locator("h3", { hasText: "What the costs are made of" }).count() === 1, "it has no terms of cost");
});

// Tab goes through the page in its order, and what has the focus shows it.
await look("keyboard", "/full/", "desktop", async (page, must) => {
  await live(page);
  const seen = [];
  for (let i = 0; i < 14; i++) {
    await page.keyboard.press("Tab");
    seen.push(await page.evaluate(() => (document.activeElement.textContent.trim() || document.activeElement.name || document.activeElement.ariaLabel || "").slice(0, 40)));
    if (i > 0) must(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle !== "none"), `the focus does not show on ${seen.at(-1)}`);
  }
  must(seen[0].startsWith("Skip"), `Tab begins at ${seen[0]}`);
  for (const want of ["bundles", "pause", "fallback drill", "show"]) must(seen.some((s) => s.startsWith(want)), `Tab does not reach ${want}: ${seen}`);
}, { window: true });

await look("paused", "/full/", "desktop", async (page, must) => {
  await live(page);
  await page.locator("button.pause").click();
  const first = () => page.locator("#decisions tbody tr").first().getAttribute("data-key");
  const before = await first();
  await page.waitForTimeout(1800);
  must(await first() === before, "it goes on while paused");
  must(await page.locator("button.pause[aria-pressed=true]").count() === 1, "pause does not say that it is on");
  await page.locator("button.pause").click();
  await live(page);
  await page.waitForFunction((key) => document.querySelector("#decisions tbody tr").dataset.key !== key, before);
}, { window: true });

await look("drill", "/full/", "desktop", async (page, must) => {
  await page.locator("text=fallback drill for 1 minute").click();
  await page.waitForSelector("#summary .banner");
  await live(page);
  must(page.url() === address + "/full/", `the drill led to ${page.url()}`);
}, { window: true });
await look("drill-ended", "/full/", "desktop", async (page, must) => {
  await page.locator("text=end the fallback drill").click();
  await page.waitForSelector("text=fallback drill for 1 minute");
  must(await page.locator("#summary .banner").count() === 0, "the drill goes on");
}, { window: true });

for (const view of Object.keys(views)) {
  await look(`bundles-${view}`, "/full/", view, async (page, must) => {
    await page.locator("nav a", { hasText: "bundles" }).click();
    await page.locator("input[name=a][value='43']").check();
    await page.locator("input[name=b][value='42']").check();
    await page.locator("text=compare A with B").click();
    await page.waitForSelector("#compared");
    must(await page.locator("#compared tbody tr").count() > 3, "nothing differs");
  });
}

await look("other-llm", "/full/", "desktop", async (page, must) => {
  await page.locator("#charts select").selectOption("llama-3.1-8b-instruct");
  await page.locator("#charts form button").click();
  await live(page);
  must(/llama/.test(await page.locator("#charts h2").innerText()), "the other LLM is not shown");
  await page.waitForSelector("#charts .nothing:not([hidden])");
}, { window: true });

await look("no-scripts", "/full/", "desktop", async (page, must) => {
  must(await page.locator("#fleet tbody tr").count() === 6, "the endpoints are not there");
  await page.locator("#minutes summary").click();
  must(await page.locator("#minutes tbody tr").count() > 10, "the minutes are not there");
  await page.locator("a.explain").first().click();
  must(await page.locator("h3", { hasText: "Candidates" }).count() === 1, "the decision does not open");
}, { context: { javaScriptEnabled: false } });

// The last one: the router goes away.
await look("lost", "/full/", "desktop", async (page, must) => {
  await live(page);
  server.kill();
  await page.waitForSelector("#link.lost", { timeout: 15000 });
  must(/no news since/.test(await page.locator("#link").innerText()), "it does not say that it hears nothing");
}, { window: true, expect: /events/ });

await browser.close();
for (const f of faults) console.error("FAULT " + f);
console.log(`console: ${checks} checks, ${faults.length} faults; pictures in ${folder}`);
process.exit(faults.length ? 1 : 0);
