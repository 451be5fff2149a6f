"use strict";
// What both pages share: fetching, elements, and numbers as people read them.

const SVG = "http://www.w3.org/2000/svg";

async function getJson(path) {
  const token = sessionStorage.getItem("stepwatch-token");
  const headers = token ? { authorization: "Bearer " + token } : {};
  const response = await fetch(path, { headers });
  if (response.status === 401) {
    const given = prompt("This collector needs a token");
    if (given) { sessionStorage.setItem("stepwatch-token", given); return getJson(path); }
  }
  if (!response.ok) throw new Error("HTTP " + response.status);
  return response.json();
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
const number = (value, digits) => known(value) ? value.toFixed(digits === undefined ? 2 : digits) : UNKNOWN;
const percent = (value, digits) => known(value) ? (100 * value).toFixed(digits === undefined ? 1 : digits) + " %" : UNKNOWN;
function seconds(value) {
  if (!known(value)) return UNKNOWN;
  if (value < 1) return (1000 * value).toFixed(value < 0.01 ? 2 : 0) + " ms";
  return value < 120 ? value.toFixed(2) + " s" : (value / 60).toFixed(1) + " min";
}
function bytes(value) {
  if (!known(value)) return UNKNOWN;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let index = 0;
  while (value >= 1000 && index < units.length - 1) { value /= 1000; index += 1; }
  return value.toFixed(index ? 1 : 0) + " " + units[index];
}
const clock = (unix) => known(unix) ? new Date(1000 * unix).toISOString().replace("T", " ").slice(0, 19) + " UTC" : UNKNOWN;
const state = (word) => element("span", { className: "state s-" + word, textContent: word });

function row(...cells) {
  return element("tr", {}, ...cells.map((cell) => element("td", {}, cell)));
}

function keepFresh(load, every) {
  const mark = document.getElementById("freshness");
  let last = null;
  async function turn() {
    try {
      await load();
      last = Date.now();
      mark.textContent = "updated " + new Date(last).toISOString().slice(11, 19) + " UTC";
      mark.className = "freshness";
    } catch (error) {
      mark.textContent = last === null
        ? "no answer from the collector: " + error.message
        : "stale since " + new Date(last).toISOString().slice(11, 19) + " UTC: " + error.message;
      mark.className = "freshness stale";
    }
    setTimeout(turn, every);
  }
  turn();
}
