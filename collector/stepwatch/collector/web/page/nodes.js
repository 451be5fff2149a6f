"use strict";

const one = location.pathname.startsWith("/nodes/") ? decodeURIComponent(location.pathname.slice("/nodes/".length)) : null;
const SHOWN = 500;
const ORDER = ["failed", "degraded", "unknown", "healthy"];
const at = (id) => document.getElementById(id);
const fill = (id, rows) => document.querySelector("#" + id + " tbody").replaceChildren(...rows);
const nodeLink = (name) => element("a", { href: "/nodes/" + encodeURIComponent(name), textContent: name });
const action = (word) => word === "none" ? "-" : word;
const health = (node) => element("span", {}, state(node.health), node.repeat_offender ? " repeat offender" : "");
const line = (node) => row(nodeLink(node.node), health(node), node.reason, action(node.action),
  clock(node.last_report), String(node.faults_7d), String(node.faults_30d), String(node.jobs_30d));
// A fault without a known end may have ended when its agent did.
const ended = (fact) => fact.present ? "lasts" : known(fact.ended) ? clock(fact.ended) : "not reported; last seen " + clock(fact.last_seen);

async function loadAll() {
  // One state after the other, the worst first: of a large fleet the failed node must not be the one that is left out.
  let found = null, worstFirst = [];
  for (const word of ORDER) {
    if (worstFirst.length >= SHOWN || found && !found.counts[word]) continue;
    found = await getJson("/v1/nodes?health=" + word + "&limit=" + (SHOWN - worstFirst.length));
    worstFirst = worstFirst.concat(found.nodes);
  }
  const total = ORDER.reduce((sum, word) => sum + found.counts[word], 0);
  at("empty").hidden = total > 0;
  at("nodes").hidden = !total;
  at("summary").textContent = ORDER.filter((word) => found.counts[word]).map((word) => found.counts[word] + " " + word).join(", ")
    + (total <= worstFirst.length ? "" : "; the worst " + worstFirst.length + " are shown, stepwatch nodes shows all")
    + (found.history_cut ? "; there are more faults than are read at once: counts are lower bounds" : "");
  at("together").replaceChildren(...found.together.map((each) => element("div", { className: "incident open" },
    element("p", { className: "headline", textContent: each.summary }), element("p", { textContent: each.nodes.join(", ") }))));
  fill("nodes", worstFirst.map(line));
}

async function loadOne() {
  const node = await getJson("/v1/nodes/" + encodeURIComponent(one));
  at("title").textContent = "Node " + node.node;
  at("summary").replaceChildren(element("a", { href: "/nodes", textContent: "all nodes" }));
  at("nodes").hidden = at("one").hidden = false;
  fill("nodes", [line(node)]);
  fill("parts", node.parts.map((part) => row(part.part, state(part.health), action(part.action), String(part.faults), clock(part.last_seen))));
  fill("history", node.history.map((fact) => row(clock(fact.began), ended(fact), fact.severity, fact.title, fact.subject,
    String(fact.times), known(fact.job) ? element("a", { href: "/jobs/" + encodeURIComponent(fact.job), textContent: fact.job }) : "-", fact.text)));
}

keepFresh(one === null ? loadAll : loadOne, 2000);
