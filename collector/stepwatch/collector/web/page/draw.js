"use strict";
// Shared by the pages: fetching, elements, and numbers for people to read.

const SVG = "http://www.w3.org/2000/svg";

const ANSWER_WITHIN_MS = 10000;
let asked = false;
// What a terminal obeys or an eye does not see shows as U+FFFD: people copy from the page into shells.
const OBEYED = /^(?:\\[bf]|[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff\ufff9-\ufffb])$/;
const unescaped = (found) => found[1] === "u" ? String.fromCharCode(parseInt(found.slice(2), 16)) : found;
// Before JSON is parsed, which leaves numbers alone: a heatmap has a million of them.
const plain = (json) => json.replace(/[\x7f-\uffff]|\\(?:u[0-9a-f]{4}|.)/gi, (found) => OBEYED.test(unescaped(found)) ? "\ufffd" : found);

const storedToken = () => sessionStorage.getItem("stepwatch-token");

async function getAnswer(path, withinMs) {
  const headers = storedToken() ? { authorization: "Bearer " + storedToken() } : {};
  // A collector that hangs shows as stale, too: without a limit the page would wait for ever.
  const response = await fetch(path, { headers, signal: AbortSignal.timeout(withinMs) });
  if (response.status === 401 && !asked) {
    asked = true; // once: a user who cancels is not asked again every two seconds
    const given = prompt("This collector needs a token");
    if (given) { sessionStorage.setItem("stepwatch-token", given); asked = false; return getAnswer(path, withinMs); }
  }
  if (response.status === 401) throw new Error("it needs a token; reload to give one");
  if (!response.ok) throw new Error("HTTP " + response.status);
  return response;
}

async function getJson(path) {
  const response = await getAnswer(path, ANSWER_WITHIN_MS);
  return JSON.parse(plain(await response.text()));
}

function element(name, properties, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) made[key] = value;
  made.append(...children.filter((child) => child !== null));
  return made;
}

function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const UNKNOWN = "unknown";
const known = (value) => value !== null && value !== undefined;
const grouped = (value, digits) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const number = (value, digits) => known(value) ? grouped(value, digits === undefined ? 2 : digits) : UNKNOWN;
const times = (ratio) => ratio < 100 ? ratio.toFixed(1) + "x" : "over 100x";
// How much faster: in percent, from twice as fast on how many times as fast.
const gain = (ratio) => known(ratio) && ratio >= 1 ? times(1 + ratio) + " as fast" : percent(ratio);
const percent = (value, digits) => known(value) ? (100 * value).toFixed(digits === undefined ? 1 : digits) + "%" : UNKNOWN;
// The same rules as in quantities.py, which the command line uses.
function seconds(value) {
  if (!known(value)) return UNKNOWN;
  if (value < 0.9995) return value ? Number((1000 * value).toPrecision(3)) + " ms" : "0 s";
  if (value < 7200) return value < 120 ? value.toFixed(2) + " s" : (value / 60).toFixed(1) + " min";
  return (value / 3600).toFixed(1) + " h";
}
function deviceTime(value) {
  if (!known(value)) return UNKNOWN;
  if (value < 59.95) return value.toFixed(1) + " device-s";
  return value < 3597 ? (value / 60).toFixed(1) + " device-min" : grouped(value / 3600, 2) + " device-h";
}
function measure(value, unit) {
  if (!known(value)) return UNKNOWN;
  const [name, ...rest] = unit.replaceAll("_", " ").split(" ");
  const worded = { seconds, bytes, ratio: (share) => percent(share, 0) }[name];
  if (worded) return [worded(value), ...rest].join(" ");
  if (unit === "step") return "step " + value;
  if (unit === "digest") return value.toString(16);
  const plain = Number.isInteger(value) || Math.abs(value) >= 1000 ? grouped(value, 0) : String(Number(value.toPrecision(3)));
  const isOne = plain === "1" && ["events", "ranks", "steps"].includes(unit);
  return (plain + " " + (isOne ? unit.slice(0, -1) : unit)).trimEnd();
}
function bytes(value) {
  if (!known(value)) return UNKNOWN;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let index = 0;
  while (value >= 1000 && index < units.length - 1) { value /= 1000; index += 1; }
  return value.toFixed(index ? 1 : 0) + " " + units[index];
}
const clock = (unix) => known(unix) ? new Date(1000 * unix).toISOString().replace("T", " ").slice(0, 19) + " UTC" : UNKNOWN;
// What is old is not known to be well, whatever it said: in words, empty where an answer is fresh.
const staleWords = (view) => !view.stale ? "" : view.stale.reason + (view.stale.state ? "; it was " + view.stale.state + " then" : "");
const WORDS = { "too-early": "too early" };
const state = (word) => element("span", { className: "state s-" + word, textContent: WORDS[word] || word });

function row(...cells) {
  return element("tr", {}, ...cells.map((cell) => element("td", {}, cell)));
}

// Runs `load` now and at an interval, and shows how fresh the page is; returns a function that runs it at once.
function keepFresh(load, every) {
  const mark = document.getElementById("freshness");
  const time = (ms) => new Date(ms).toISOString().slice(11, 19) + " UTC";
  let last = null, timer = null, running = false, again = false;
  async function turn() {
    if (running) { again = true; return; }
    running = true;
    clearTimeout(timer);
    let failure = null;
    try {
      await load();
      last = Date.now();
    } catch (error) {
      failure = error.message;
    }
    running = false;
    mark.textContent = failure === null ? "updated " + time(last)
      : last === null ? "no answer from the collector: " + failure
        : "stale since " + time(last) + ": " + failure;
    mark.className = failure === null ? "freshness" : "freshness stale";
    document.body.classList.toggle("outdated", failure !== null);
    timer = setTimeout(turn, again ? 0 : every);
    again = false;
  }
  turn();
  return turn;
}
