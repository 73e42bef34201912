// Opens reports from file:// and checks what a reader would: numbers, hover, search, keys, widths, no requests, no errors.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [work, shots] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
  ],
});
let checks = 0;
const check = async (name, body) => {
  await body();
  checks += 1;
  console.log(`ok  ${name}`);
};

// A page that must stay silent: no console output, no errors, no dialogs, no requests but for the file itself.
const open = async (file, options = {}) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const path = join(work, file);
  const noise = [];
  page.on("console", (m) => noise.push(`console: ${m.text()}`));
  page.on("pageerror", (e) => noise.push(`error: ${e.message}`));
  page.on("dialog", (d) => { noise.push(`dialog: ${d.message()}`); d.dismiss(); });
  page.on("request", (r) => { if (r.url() !== `file://${encodeURI(path)}`) noise.push(`request: ${r.url()}`); });
  await page.goto(`file://${path}`);
  page.silent = async () => {
    await page.waitForTimeout(50);
    assert.deepEqual(noise, [], file);
    await context.close();
  };
  return page;
};
const summary = (run) => JSON.parse(readFileSync(join(work, run, "summary.json")));
const fits = (page) => page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth);
const plain = (text) => Number(text.replace(/\u2212/g, "-").replace(/[, %]/g, ""));
const readout = (page, chart) => page.locator(`${chart} .readout`).textContent();

for (const run of ["stages", "default", "logistic", "toy", "pmgd", "mh", "em", "wide", "nasty", "pqn"]) {
  await check(`${run}: numbers are those of summary.json`, async () => {
    const page = await open(`${run}/report.html`);
    const truth = summary(run);
    const data = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).runs[0]);
    assert.equal(data.theta[0].mean, truth.theta.mean[0]);
    assert.equal(data.theta[0].last, truth.theta.last[0]);
    assert.equal(data.time.seconds, truth.time.seconds);
    const figures = await page.evaluate(() => Object.fromEntries([...document.querySelectorAll(".figures div")].map((d) =>
      [d.querySelector("dt").textContent, { exact: Number(d.querySelector("data").value), shown: d.querySelector("data").textContent }])));
    const mean = figures[truth.theta.names[0]];
    assert.equal(mean.exact, truth.theta.mean[0]);
    assert.ok(Math.abs(plain(mean.shown) - mean.exact) < 0.06 * (truth.theta.se[0] || 1), mean.shown);
    const cells = await page.$$eval("table.theta tbody td", (all) => Object.fromEntries(all.map((c) => [c.dataset.head, [...c.querySelectorAll("data")].map((d) => Number(d.value))])));
    assert.deepEqual(cells.estimate, [truth.theta.mean[0]]);
    if (truth.theta.se.length) {
      assert.deepEqual(cells["standard error"], [truth.theta.se[0]]);
      assert.deepEqual(cells["95 % interval"], truth.theta.interval[0]);
      assert.deepEqual(cells.information, [truth.theta.information_share[0]]);
    }
    if (truth.log_likelihood?.value) {
      const line = await page.$$eval("table.likelihood td", (all) => all.slice(0, 4).map((c) => JSON.parse(c.querySelector("data")?.value ?? "null")));
      const l = truth.log_likelihood;
      assert.deepEqual(line, [l.value, l.mc_error, l.aic, l.bic]);
    }
    assert.equal(figures.time.exact, truth.time.seconds);
    assert.equal(data.theta[0].error, truth.theta.mc_error[0]);
    assert.equal(data.theta[0].drift, truth.diagnostics.drift[0] ?? null);
    if (truth.time.assess_seconds) assert.equal(figures["time of assessing"].exact, truth.time.assess_seconds);
    if (truth.metrics) {
      assert.equal(figures["test error"].exact, truth.metrics.test_error);
      assert.ok(Math.abs(plain(figures["test error"].shown) - 100 * truth.metrics.test_error) < 0.006);
      assert.equal(figures.LPPD.exact, truth.metrics.lppd);
      assert.ok(Math.abs(plain(figures.LPPD.shown) - truth.metrics.lppd) < 1e-4);
    }
    if (truth.posterior) {
      const shown = await page.$$eval("table.intervals tbody tr", (rows) => rows.map((r) => [...r.cells].map((c) => c.textContent)));
      assert.equal(shown.length, truth.posterior.mean.length);
      for (const [name, mean, sd] of shown) {
        const i = truth.posterior.names.indexOf(name);
        assert.ok(i >= 0, name);
        assert.ok(Math.abs(plain(mean) - truth.posterior.mean[i]) < 1e-2, `${name}: ${mean}`);
        assert.ok(Math.abs(plain(sd) - Math.sqrt(truth.posterior.var[i])) < 1e-2, `${name}: ${sd}`);
      }
    }
    assert.ok(await page.locator("svg.plot path.line").count() >= 1);
    await page.silent();
  });
}

await check("hovering tells the nearest point", async () => {
  const page = await open("toy/report.html");
  const chart = '[data-chart="theta"]';
  const idle = await readout(page, chart);
  await page.locator(`${chart} svg.plot`).scrollIntoViewIfNeeded();
  const box = await page.locator(`${chart} svg.plot`).boundingBox();
  await page.mouse.move(box.x + 0.75 * box.width, box.y + 0.4 * box.height);
  const said = await readout(page, chart);
  const [, step, theta] = said.match(/^step ([\d,]+): theta (\S+), average/) || assert.fail(said);
  const row = readFileSync(join(work, "toy/trace.csv"), "utf8").split("\n").find((l) => l.startsWith(`${plain(step)},`));
  assert.ok(Math.abs(plain(theta) - Number(row.split(",")[1])) < 1e-4, `${said} but the trace has ${row}`);
  assert.equal(await page.locator(`${chart} circle.dot`).count(), 2);
  await page.mouse.move(5, 5);
  assert.equal(await readout(page, chart), idle);
  await page.silent();
});

await check("keys move along a trace", async () => {
  const page = await open("toy/report.html");
  const chart = '[data-chart="theta"]';
  await page.locator(`${chart} svg.plot`).focus();
  await page.keyboard.press("ArrowRight");
  assert.match(await readout(page, chart), /^step 0: theta 0/);
  await page.keyboard.press("End");
  const last = await readout(page, chart);
  assert.match(last, /^step 5,000: theta/);
  const truth = summary("toy");
  assert.ok(Math.abs(plain(last.match(/theta ([^,\s]+)/)[1]) - truth.theta.last[0]) < 1e-4, last);
  assert.ok(Math.abs(plain(last.match(/average (\S+)/)[1]) - truth.theta.mean[0]) < 1e-4, last);
  await page.keyboard.press("Escape");
  assert.match(await readout(page, chart), /^estimate .*, standard error .*, MC error /);
  await page.silent();
});

await check("everything can be reached with Tab and is labelled", async () => {
  const page = await open("logistic/report.html");
  const reached = new Set();
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate(() => document.activeElement.tagName.toLowerCase()));
  }
  for (const tag of ["svg", "input", "button"]) assert.ok(reached.has(tag), `${tag} of ${[...reached]}`);
  const labels = await page.$$eval("svg.plot", (all) => all.map((s) => [s.getAttribute("role"), s.getAttribute("aria-label")]));
  assert.ok(labels.length >= 4 && labels.every(([role, label]) => role === "img" && label.length > 20));
  await page.silent();
});

await check("search and selection work", async () => {
  const page = await open("toy/report.html");
  const visible = () => page.$$eval("table.intervals tbody tr", (rows) => rows.filter((r) => !r.hidden).map((r) => r.cells[0].textContent));
  assert.equal((await visible()).length, 100);
  await page.getByLabel("Find").fill("X[7");
  assert.deepEqual((await visible()).sort(), ["x[7]", ...[...Array(10).keys()].map((i) => `x[7${i}]`)].sort());
  assert.equal(await page.locator("[data-found]").textContent(), "11 of 100 coordinates");
  await page.getByRole("button", { name: "x[7]", exact: true }).press("Enter");
  assert.match(await readout(page, '[data-chart="density"]'), /^x\[7\]: mean/);
  assert.equal(await page.locator("tr[aria-selected=true]").count(), 1);
  await page.locator('[data-chart="density"] svg.plot').scrollIntoViewIfNeeded();
  const box = await page.locator('[data-chart="density"] svg.plot').boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  assert.match(await readout(page, '[data-chart="density"]'), /^x\[7\] = \S+: density \S+/);
  await page.getByLabel("Find").fill("nowhere");
  assert.equal((await visible()).length, 0);
  await page.silent();
});

await check("densities integrate to one", async () => {
  const page = await open("wide/report.html");
  const rows = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).runs[0].posterior);
  assert.equal(rows.length, 1000);
  for (const { density: d, name } of rows) {
    const mass = d.y.reduce((a, b) => a + b, 0) / 1000 * d.peak * d.step;
    assert.ok(Math.abs(mass - 1) < 0.02, `${name}: ${mass}`);
  }
  await page.silent();
});

await check("after burn-in only what is averaged is drawn", async () => {
  const page = await open("toy/report.html");
  await page.getByLabel("after burn-in").check();
  assert.equal(await page.locator('[data-chart="theta"] .band').count(), 0);
  await page.locator('[data-chart="theta"] svg.plot').focus();
  await page.keyboard.press("Home");
  const step = plain((await readout(page, '[data-chart="theta"]')).match(/^step ([\d,]+)/)[1]);
  assert.ok(step > 2500 && step < 2600, `${step}`);
  await page.silent();
});

await check("a fit in stages opens after the search, and all of it can be seen", async () => {
  const page = await open("stages/report.html");
  const chart = '[data-chart="theta"]';
  const texts = () => page.$$eval(`${chart} text.inside`, (all) => all.map((t) => t.textContent));
  assert.deepEqual(await texts(), ["average", "posterior"]);
  await page.locator(`${chart} svg.plot`).focus();
  await page.keyboard.press("Home");
  assert.match(await readout(page, chart), /^sweep 101: theta/);
  await page.locator(chart).getByLabel("whole run").check();
  assert.deepEqual(await texts(), ["search", "average", "posterior"]);
  await page.locator(`${chart} svg.plot`).focus();
  await page.keyboard.press("Home");
  assert.match(await readout(page, chart), /^sweep 0: theta/);
  assert.equal(await page.locator(`${chart} .between`).count(), 1);
  await page.locator(chart).getByLabel("95 % interval").uncheck();
  assert.equal(await page.locator(`${chart} .between`).count(), 0);
  assert.ok(!/burn-in|effective sample size/.test(await page.locator("main").textContent()));
  await page.silent();
});

await check("a verdict other than ok is larger than the numbers", async () => {
  const page = await open("doubtful/report.html");
  const size = (what) => page.locator(what).first().evaluate((e) => parseFloat(getComputedStyle(e).fontSize));
  assert.ok(await size(".verdict h2") > 1.4 * await size(".figures dd"));
  assert.match(await page.locator("main").textContent(), /Not available: its Monte Carlo error would be 12\./);
  await page.silent();
});

await check("a likelihood-ratio test has its numbers and its caution", async () => {
  const page = await open("ratio.html");
  const figures = await page.$$eval(".test .figures div", (all) => Object.fromEntries(all.map((d) => [d.querySelector("dt").textContent, d.querySelector("dd").textContent])));
  assert.equal(figures["degrees of freedom"], "1");
  assert.match(figures["p-value"], /^0\.0253/);
  assert.match(await page.locator(".test").textContent(), /behind log_sd to 0.*half of the p-value, 0\.0127/s);
  await page.silent();
});

await check("components of theta are chosen one by one", async () => {
  const page = await open("three/report.html");
  const chart = '[data-chart="theta"]';
  await page.locator(chart).getByLabel("Component").selectOption({ label: "gamma" });
  await page.locator(`${chart} svg.plot`).focus();
  await page.keyboard.press("End");
  const said = await readout(page, chart);
  assert.ok(Math.abs(plain(said.match(/gamma (\S+),/)[1]) - summary("three").theta.last[2]) < 1e-4, said);
  const rows = await page.$$eval("table.theta tbody tr", (all) => all.map((r) => [r.cells[0].textContent, Number(r.querySelector("data").value)]));
  assert.deepEqual(rows, summary("three").theta.names.map((name, i) => [name, summary("three").theta.mean[i]]));
  await page.silent();
});

await check("names from data stay text", async () => {
  const page = await open("nasty/report.html");
  const nasty = "</script><img src=x onerror=alert(1)>";
  assert.equal(await page.locator("img").count(), 0);
  assert.ok((await page.locator("table.intervals").textContent()).includes(nasty));
  await page.getByRole("button", { name: nasty, exact: true }).click();
  assert.ok((await readout(page, '[data-chart="density"]')).startsWith(nasty));
  await page.silent();
});

await check("runs are compared by steps and by time", async () => {
  const page = await open("toy-runs.html");
  const chart = '[data-chart="overlay"][data-label="theta"]';
  assert.equal(await page.locator(`${chart} path.line`).count(), 4);
  await page.locator(chart).getByLabel("by time").check();
  assert.equal(await page.locator(`${chart} path.line`).count(), 3);
  assert.match(await readout(page, chart), /1 unfinished run/);
  await page.locator(`${chart} svg.plot`).focus();
  await page.keyboard.press("End");
  const seconds = plain((await readout(page, chart)).match(/^(\S+) s: run 1/)[1]);
  assert.ok(Math.abs(seconds / summary("toy").time.seconds - 1) < 1e-2, `${seconds}`);
  await page.locator(`${chart} .keys input`).first().uncheck();
  assert.equal(await page.locator(`${chart} path.line`).count(), 2);
  const rows = await page.$$eval("table.runs tr[data-run]", (all) => all.map((r) => r.textContent));
  assert.equal(rows.length, 4);
  assert.ok(rows[3].includes("Not finished"));
  await page.silent();
});

await check("an unfinished run says so", async () => {
  const page = await open("unfinished/report.html");
  assert.match(await page.locator(".verdict").textContent(), /Not finished: [\d,]+ of 9,000 steps.*motes resume unfinished/s);
  assert.equal(await page.locator("svg.plot").count(), 1);
  await page.silent();
});

await check("pages fit wide and narrow screens, light and dark", async () => {
  const pages = ["stages/report.html", "default/report.html", "doubtful/report.html", "begun/report.html", "ratio.html", "compared/report.html", "logistic/report.html", "toy/report.html", "nasty/report.html", "mh/report.html", "em/report.html", "wide/report.html", "unfinished/report.html", "three/report.html", "toy-runs.html", "logistic-runs.html"];
  for (const file of pages) {
    const name = file.replace("/report.html", "").replace(".html", "");
    for (const [kind, options] of [
      ["wide", {}],
      ["narrow", { viewport: { width: 360, height: 740 } }],
      ["dark", { colorScheme: "dark" }],
    ]) {
      const page = await open(file, options);
      assert.ok(await fits(page), `${file} scrolls sideways when ${kind}`);
      await page.screenshot({ path: join(shots, `${name}-${kind}.png`), fullPage: true });
      await page.silent();
    }
  }
});

await check("pages read without JavaScript, and print", async () => {
  const page = await open("logistic/report.html", { javaScriptEnabled: false });
  assert.match(await page.locator("main").textContent(), /JavaScript/);
  assert.ok(await page.locator("table.intervals tbody tr").count() > 5);
  await page.silent();
  const printed = await open("logistic/report.html", { colorScheme: "dark" });
  await printed.pdf({ path: join(shots, "logistic.pdf"), format: "A4" });
  await printed.emulateMedia({ media: "print" });
  assert.equal(await printed.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  assert.equal(await printed.locator(".search").isVisible(), false);
  await printed.silent();
});

await browser.close();
console.log(`${checks} checks passed`);
