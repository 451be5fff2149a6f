"use strict";

const job = decodeURIComponent(location.pathname.split("/").pop());
const metric = document.getElementById("metric");

const BUCKETS = [
  ["data", "data"], ["forward", "forward"], ["backward", "backward"], ["optimizer", "optimizer"],
  ["checkpoint", "checkpoint"], ["eval", "eval"], ["other", "other"],
  ["collective", "wait in collectives"], ["pipeline", "pipeline wait"],
];

// Which clock the step times are on; where steps count on both, they are of the one with the most.
function stepClocks(on) {
  const some = Object.entries(on).filter(([, count]) => count > 0).sort((one, other) => other[1] - one[1]);
  if (!some.length) return UNKNOWN;
  return some.length === 1 ? some[0][0] : some.map(([name, count]) => name + " " + count).join(", ");
}

function drawFacts(view) {
  const facts = [
    ["state", state(view.state)], ["attempt", known(view.attempt) ? view.attempt : UNKNOWN], ["ranks", view.world_size || UNKNOWN],
    ["step", known(view.step) ? view.step : UNKNOWN],
    // What a job need not report is no figure of one that does not.
    ...(known(view.loss_first) ? [["loss, first to last", number(view.loss_first, 3) + " → " + number(view.loss_last, 3)]] : []),
    ...(known(view.tokens_per_second) ? [["tokens per second", number(view.tokens_per_second, 0)]] : []),
    ["step p50", seconds(view.step_seconds.p50)], ["step p95", seconds(view.step_seconds.p95)],
    ["step p99", seconds(view.step_seconds.p99)], ["steps timed on the", stepClocks(view.steps_on)],
    ["last received", clock(view.newest_record_at)],
  ];
  if (view.lost_records) facts.push(["records lost", view.lost_records]);
  if (view.refused_records) facts.push(["records refused", view.refused_records]);
  document.getElementById("facts").replaceChildren(...facts.map(([name, value]) =>
    element("div", { className: "fact" }, element("b", {}, value instanceof Node ? value : String(value)),
      element("span", { textContent: name }))));
}

function drawSharedName(shared) {
  const notice = document.getElementById("shared");
  notice.hidden = !shared;
  notice.textContent = shared ? "Two runs report under this name: rank " + shared.rank + " runs on "
    + shared.nodes.join(" and on ") + " at once (" + shared.ranks + " such ranks). What is shown mixes them: "
    + "start one of them with another --job." : "";
}

function drawUnread(parts) {
  const notice = document.getElementById("unread");
  notice.hidden = !parts.length;
  notice.textContent = parts.map((part) => "Segments " + part.first + " to " + part.last + " of the log (" + part.segments
    + ", from " + clock(part.from_s) + " to " + clock(part.until_s) + ") could not be read: their steps are missing here.").join(" ");
}

// The newest resume, and what continued. Null is unknown.
function drawResume(attempts) {
  const notice = document.getElementById("resume"), resumed = attempts.filter((each) => each.resume).pop();
  notice.hidden = !resumed;
  if (!resumed) return;
  const resume = resumed.resume;
  const word = (value) => value === true ? "continued" : value === false ? "not continued" : "unknown if it continued";
  notice.textContent = "Attempt " + resumed.attempt + " resumed from step " + resume.step + (resume.path ? ", " + resume.path : "")
    + ": loss " + number(resume.loss_before, 3) + " → " + number(resume.loss_after, 3) + ", " + word(resume.loss_continued)
    + "; learning rate " + word(resume.learning_rate_continued) + "; data order " + resume.data_order + ".";
}

// Runs of experiment trackers. Their addresses come from the job: anything but http and https stays text.
function trackedRun(link) {
  const text = link.run || link.url;
  const named = /^https?:\/\//i.test(link.url)
    ? element("a", { href: link.url, rel: "noopener noreferrer", textContent: text }) : text;
  return [link.tracker + " ", named];
}

function drawTracked(links) {
  const line = document.getElementById("tracked");
  line.hidden = !links.length;
  line.replaceChildren("Tracked in: ", ...links.flatMap((link, index) => [index ? ", " : "", ...trackedRun(link)]));
}

// A measured value stays on one line; text may be long.
const evidenceName = (item) => item.name === "profile"
  ? element("a", { href: "#profiles-section", textContent: item.name }) : item.name;
const evidenceRow = (item) => element("tr", {}, element("td", {}, evidenceName(item)),
  element("td", item.text ? { textContent: item.text }
    : { textContent: measure(item.value, item.unit), className: "measure" }),
  element("td", { textContent: item.against }));

function evidenceTable(rows) {
  return element("table", {}, element("thead", {}, element("tr", {},
    ...["Evidence", "Value", "Compared with"].map((text) => element("th", { textContent: text })))),
    element("tbody", {}, ...rows.map(evidenceRow)));
}

function symptomList(incident) {
  const symptoms = incident.symptoms || [];
  if (!symptoms.length) return "";
  return element("div", { className: "symptoms" }, element("b", { textContent: "Symptoms grouped under this incident" }),
    element("ul", {}, ...symptoms.map((item) => element("li", {},
      item.kind + ": " + item.summary + ", last seen ", clock(item.seen_at)))));
}

function mergedInto(incident) {
  return !incident.merged_into ? "" : element("p", {}, "Grouped under ", element("a", {
    href: "#incident-" + incident.merged_into, textContent: "incident " + incident.merged_into }), ".");
}

// Broken between words only: an option cut at its hyphens reads as another one.
const commandOf = (text) => element("code", { className: "command" },
  ...text.split(" ").flatMap((word, index) => [index ? " " : "", element("span", { textContent: word })]));

function responseFields(response) {
  const done = ["acknowledged", "mitigated"].filter((event) => response[event]).map((event) =>
    [event, "by " + response[event].by + ", " + clock(response[event].at)]);
  const comments = (response.notes || []).filter((note) => note.text && note.event !== "assigned").map((note) =>
    [note.event, note.by + ": " + note.text]);
  return [...done, ...(response.owner ? [["owner", response.owner]] : []), ...comments.slice(-5)];
}

function drawIncident(incident) {
  const fields = [
    ["state", state(incident.state)], ["kind", incident.kind],
    ["rank", incident.rank < 0 ? "no single rank" : String(incident.rank)], ["node", incident.node],
    ["phase", incident.phase === "other" && incident.rank < 0 ? "" : incident.phase], ["cause", incident.cause], ["confidence", incident.confidence || ""], ["since step", String(incident.since_step)],
    ["detected after", seconds(incident.detected_after_seconds)],
    ["throughput lost", percent(incident.throughput_lost_ratio, 0)],
    ["throughput lost now", incident.state === "open" ? percent(incident.throughput_lost_ratio_now, 0) : ""],
    ["severity", incident.severity],
    // Zero seconds with an unknown share means unknown, not that nothing was lost.
    ["device time lost", known(incident.throughput_lost_ratio) || incident.device_seconds_lost
      ? deviceTime(incident.device_seconds_lost) : UNKNOWN],
    ["cost", known(incident.cost) && incident.device_seconds_lost
      ? number(incident.cost, incident.cost < 1 ? 4 : 2) + " " + incident.currency : ""],
    ["began", clock(incident.began_at)],
    ...responseFields(incident.response || {}),
  ].filter(([, value]) => value !== "");
  const command = "stepwatch runbook " + incident.runbook + " --incident " + incident.id
    + " --collector " + location.origin;
  return element("article", { className: "incident " + incident.state, id: "incident-" + incident.id },
    element("p", { className: "headline", textContent: incident.summary }),
    mergedInto(incident),
    element("dl", {}, ...fields.map(([name, value]) => element("div", {},
      element("dt", { textContent: name }), element("dd", {}, value)))),
    element("p", {}, "What to do: ", element("a", {
      href: "/runbooks/" + encodeURIComponent(incident.runbook) + "?incident=" + encodeURIComponent(incident.id),
      textContent: "runbook " + incident.runbook }), ", or ", commandOf(command)),
    symptomList(incident),
    evidenceTable(incident.evidence));
}

function drawIncidents(incidents) {
  const order = { open: 0, ended: 1, resolved: 2, merged: 3 };
  const sorted = [...incidents].sort((a, b) => order[a.state] - order[b.state] || b.opened_at - a.opened_at);
  const box = document.getElementById("incidents");
  if (!sorted.length) {
    box.replaceChildren(element("p", { className: "note", textContent: "None so far." }));
    return;
  }
  box.replaceChildren(...sorted.map(drawIncident));
}

const ranks = ([first, last]) => first === last ? "rank " + first : "ranks " + first + "-" + last;
const steps = ([first, last]) => first === last ? "step " + first : "steps " + first + "-" + last;

// From faint to strong against the background: readable in grey and for those who cannot tell red from green.
const dark = matchMedia("(prefers-color-scheme: dark)");
const RAMPS = { light: [[222, 235, 247], [8, 48, 107]], dark: [[44, 58, 72], [255, 205, 96]] };
function colour(share) {
  const [faint, strong] = RAMPS[dark.matches ? "dark" : "light"];
  return "rgb(" + faint.map((from, index) => Math.round(from + (strong[index] - from) * share)).join(",") + ")";
}

// Linear to the 95th percentile; what is far beyond it takes the upper half, so that neither one long step nor jitter hides
// the other. The first step of an attempt does not count: it starts up.
function scaleOf(map, first) {
  const skipped = map.steps.length > 1 && map.steps[0][0] === first ? 1 : 0;
  const values = map.seconds.flatMap((line) => line.slice(skipped)).filter(known).sort((a, b) => a - b);
  const at = (share) => values[Math.round(share * (values.length - 1))] || 0;
  const low = at(0.05), middle = at(0.95), high = at(1), split = middle - low < (high - low) / 2;
  const beyond = (value) => middle > 0 ? Math.log(value / middle) / Math.log(high / middle) : value / high;
  const share = (value) => !split ? (value - low) / (high - low || 1)
    : value > middle ? 0.5 + 0.5 * beyond(value) : 0.5 * (value - low) / (middle - low || 1);
  const words = "faint " + seconds(low) + (split ? ", medium " + seconds(middle) : "") + ", strong " + seconds(high) + " and more";
  return { share: (value) => Math.min(1, Math.max(0, share(value))), words };
}

// Drawn at the panel's own width, so that text keeps its size on a narrow screen.
const widthOf = (id) => Math.max(320, document.getElementById(id).clientWidth - 22);

function drawHeatmap(map, first) {
  const left = 64, height = Math.max(14, Math.min(28, 360 / Math.max(1, map.ranks.length)));
  const width = widthOf("heatmap"), cell = (width - left) / Math.max(1, map.steps.length);
  const scale = scaleOf(map, first);
  const picture = shape("svg", { viewBox: "0 0 " + width + " " + (map.ranks.length * height + 20), role: "img" });
  picture.append(shape("defs", {}, shape("pattern", { id: "unknown", width: 6, height: 6, patternUnits: "userSpaceOnUse" },
    shape("path", { d: "M0 6 L6 0", stroke: "#b98", "stroke-width": 1 }))));
  map.ranks.forEach((range, y) => {
    const name = shape("text", { x: 0, y: y * height + height / 2 + 4 });
    name.textContent = ranks(range);
    picture.append(name);
    map.steps.forEach((span, x) => {
      const value = map.seconds[y][x];
      const box = shape("rect", { x: left + x * cell, y: y * height, width: Math.max(0.5, cell - 0.6), height: height - 1 });
      if (known(value)) { box.setAttribute("class", "cell"); box.setAttribute("fill", colour(scale.share(value))); }
      else box.setAttribute("class", "cell-unknown");
      box.dataset.seconds = known(value) ? value : "";
      box.dataset.text = ranks(range) + ", " + steps(span) + ": " + seconds(value);
      picture.append(box);
    });
  });
  const every = Math.max(1, Math.ceil(map.steps.length / Math.floor(width / 80)));
  map.steps.forEach((span, x) => {
    if (x % every) return;
    const label = shape("text", { x: left + x * cell, y: map.ranks.length * height + 15 });
    label.textContent = span[0];
    picture.append(label);
  });
  document.getElementById("heatmap").replaceChildren(map.steps.length ? picture
    : element("p", { className: "note", textContent: "No step has been received yet." }));
  document.getElementById("legend").textContent = map.steps.length
    ? scale.words + "; hatched: unknown. Columns are steps, timed on the " + map.clock + "." : "";
}

// By ProcessState of stepwatch.signals.records; the others are how a rank should be.
// A rank that finished may go, and so may one of a job that was stopped on request; any other must be seen to have gone.
const anomaly = (rank, job) => ["finish", "interrupt"].includes(rank.ended) || job === "interrupted" ? ""
  : ANOMALOUS[rank.process_state] || "";
const ANOMALOUS = { 4: " · stopped", 5: " · dead", 6: " · gone" };

function drawPhases(view) {
  const left = 190, width = widthOf("phases"), height = 24;
  const shares = (rank) => BUCKETS.map(([key]) => key === "collective" ? rank.collective_wait_share
    : key === "pipeline" ? rank.pipeline_wait_share : rank.phase_share[key]);
  const shown = view.ranks.slice(0, 64);
  const picture = shape("svg", { viewBox: "0 0 " + width + " " + shown.length * height, role: "img" });
  shown.forEach((rank, y) => {
    const name = shape("text", { x: 0, y: y * height + 15 });
    const wrong = anomaly(rank, view.state);
    name.textContent = "rank " + rank.rank + " · stage " + (known(rank.stage) ? rank.stage : "?")
      + (wrong || (rank.process_state in ANOMALOUS ? " · ended" : ""));
    if (wrong) name.setAttribute("class", "anomalous");
    picture.append(name);
    let x = left;
    shares(rank).forEach((share, index) => {
      if (!known(share)) return;
      const size = share * (width - left);
      const box = shape("rect", { x, y: y * height, width: Math.max(0, size - 0.5), height: height - 5, class: "bar b-" + BUCKETS[index][0] });
      const title = shape("title", {});
      title.textContent = BUCKETS[index][1] + " " + percent(share) + (known(rank.device_idle_share)
        ? "; device waits for its host " + percent(rank.device_idle_share) + ", host ahead " + seconds(rank.host_lead_seconds) : "");
      box.append(title);
      picture.append(box);
      x += size;
    });
  });
  document.getElementById("phases").replaceChildren(picture);
  document.getElementById("phase-legend").replaceChildren(...BUCKETS.map(([key, text]) =>
    element("span", {}, element("span", { className: "swatch b-" + key }), text)));
}

// Good, asked and budget; of an SLO with a limit its value and the limit, and of one that is not decided no figure.
function measured(slo) {
  const undecided = ["too-early", "unknown", "frozen"].includes(slo.state);
  const value = undecided ? "" : known(slo.limit) ? (known(slo.ratio) ? String(Number(slo.ratio.toPrecision(4))) : UNKNOWN) : percent(slo.ratio);
  return [value, known(slo.limit) ? slo.limit : percent(slo.target), undecided ? "" : slo.budget];
}

function drawTables(view) {
  document.querySelector("#slos tbody").replaceChildren(...view.slos.map((slo) => row(
    slo.name, element("span", { title: slo.reason || "" }, state(slo.state)), ...measured(slo), percent(slo.coverage),
    known(slo.clock) ? slo.clock : UNKNOWN)));
  const word = (value) => value === true ? "verified" : value === false ? "failed" : UNKNOWN;
  const verified = (item) => element("span", {}, state(word(item.verified)), item.reason ? " " + item.reason : "");
  document.querySelector("#checkpoints tbody").replaceChildren(...view.checkpoints.map((item) => row(
    String(item.step), verified(item), seconds(item.stall_seconds), seconds(item.durable_seconds), bytes(item.size_bytes))));
}

// A detector that raised finds nothing, which is no sign that nothing is wrong.
function drawNotLookedFor(view) {
  const notice = document.getElementById("not-looked-for"), failed = Object.entries(view.not_looked_for || {});
  notice.hidden = !failed.length;
  notice.textContent = failed.length ? "Not looked for: " + failed.map(([kind, reason]) => kind + " (" + reason + ")").join(", ") : "";
}

// A job that is quarantined or restoring has a state and a reason, and nothing to draw.
function drawWithheld(view) {
  const withheld = known(view.reason), notice = document.getElementById("withheld");
  notice.hidden = !withheld;
  notice.textContent = withheld ? "Not evaluated since " + clock(view.since) + ": " + view.reason : "";
  document.querySelectorAll("main section").forEach((section) => {
    if (withheld || section.id !== "profiles-section") section.hidden = withheld;
  });
  return withheld;
}

function drawStale(view) {
  const notice = document.getElementById("stale"), words = staleWords(view);
  notice.hidden = !words;
  notice.textContent = words ? "Nothing newer is known: " + words + "." : "";
}

async function load() {
  const base = "/v1/jobs/" + encodeURIComponent(job);
  const view = await getJson(base);
  document.title = "stepwatch: " + view.job;
  document.getElementById("title").textContent = view.job;
  drawFacts(view);
  drawStale(view);
  drawTracked(view.links || []);
  drawResume(view.attempts || []);
  drawSharedName(view.shared_name);
  drawUnread(view.unread || []);
  if (drawWithheld(view)) return;
  drawNotLookedFor(view);
  const [map, calls] = await Promise.all(
    [getJson(base + "/heatmap?metric=" + metric.value), getJson(base + "/collectives")]);
  drawIncidents(view.incidents);
  await showProfiles(base);
  drawHeatmap(map, (view.attempts.find((each) => each.attempt === view.attempt) || {}).first_step);
  drawPhases(view);
  drawBreakdown(view, calls);
  drawTables(view);
}

document.getElementById("heatmap").addEventListener("mouseover", (event) => {
  document.getElementById("hover").textContent = event.target.dataset ? event.target.dataset.text || "" : "";
});
const refresh = keepFresh(load, 2000);
metric.addEventListener("change", refresh);
dark.addEventListener("change", refresh);
addEventListener("resize", refresh);
