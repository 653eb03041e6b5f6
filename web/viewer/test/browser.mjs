// Browsers for the tests: Chromium and Firefox, without a window.

import { existsSync } from "node:fs";
import puppeteer from "puppeteer-core";

const PATHS = {
  chrome: [process.env.CHROMIUM, "/usr/lib/chromium/chromium", "/usr/bin/chromium", "/usr/bin/google-chrome"],
  firefox: [process.env.FIREFOX, "/usr/bin/firefox-esr", "/usr/bin/firefox"],
};

export function pathOf(browser) {
  return PATHS[browser].find((path) => path !== undefined && existsSync(path)) ?? null;
}

/** A machine with other work is slow; only what never comes ends a test. */
const MAX_WAIT = 300_000;

/** `proxy`: the port of this machine where all that goes to other machines ends. */
export async function launch(browser = "chrome", args = [], proxy = null) {
  const executablePath = pathOf(browser);
  if (executablePath === null) throw new Error(`${browser} is not installed`);
  const own = browser === "chrome" ? ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--force-color-profile=srgb", ...(proxy === null ? [] : [`--proxy-server=127.0.0.1:${proxy}`])] : [];
  const proxied = proxy === null ? {} : { "network.proxy.type": 1, "network.proxy.http": "127.0.0.1", "network.proxy.http_port": proxy, "network.proxy.ssl": "127.0.0.1", "network.proxy.ssl_port": proxy };
  const prefs = browser === "firefox" ? { extraPrefsFirefox: { "browser.shell.checkDefaultBrowser": false, ...proxied } } : {};
  const launched = await puppeteer.launch({ browser, executablePath, headless: true, args: [...own, ...args], protocolTimeout: MAX_WAIT, ...prefs });
  const newPage = launched.newPage.bind(launched);
  launched.newPage = async () => {
    const page = await newPage();
    page.setDefaultTimeout(MAX_WAIT);
    return page;
  };
  return launched;
}

/** Collects what a page reports and asks for. */
export function listen(page) {
  const found = { errors: [], outside: [] };
  page.on("console", (message) => {
    if (message.type() === "error") found.errors.push(message.text());
  });
  page.on("pageerror", (error) => found.errors.push(error.message));
  page.on("request", (request) => {
    const url = request.url();
    if (!/^(http:\/\/127\.0\.0\.1|blob:|data:|file:|about:)/.test(url)) found.outside.push(url);
  });
  return found;
}

/** Waits for the verdict of the page's own verifiers. */
export async function verdict(page) {
  await page.waitForFunction(() => {
    const box = document.querySelector(".verdict");
    return box !== null && box.dataset.light !== "none" && box.querySelector("progress") === null && box.querySelector(".spinner") === null;
  });
  return page.evaluate(() => ({ light: document.querySelector(".verdict").dataset.light, sentence: document.querySelector(".verdict-sentence").textContent }));
}
