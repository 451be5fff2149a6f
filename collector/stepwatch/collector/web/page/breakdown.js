"use strict";
// Breakdown of the newest steps: step time, collectives, pipeline stages, microbatches, what-if.

const PARTS = [
  ["data", "data"], ["forward", "forward"], ["backward", "backward"], ["optimizer", "optimizer"],
  ["checkpoint", "checkpoint"], ["eval", "eval"], ["other", "other"],
  ["transfer", "exposed transfer"], ["arrival_skew", "arrival skew"],
  ["collective_unsplit", "collectives, transfer or arrival skew unknown"],
  ["pipeline_wait", "pipeline wait"], ["unaccounted", "unaccounted"],
];
const note = (text) => element("p", { className: "note", textContent: text });
const memberOf = (item) => item.ranks ? "ranks " + item.ranks : "group " + item.group;

function drawStepTime(found) {
  const panel = document.getElementById("step-time"), legend = document.getElementById("step-time-legend");
  document.getElementById("step-time-span").textContent = !found ? ""
    : "steps " + found.steps.join("-") + ", " + seconds(found.step_seconds) + " a step, mean of the ranks";
  if (!found) { panel.replaceChildren(note("No step has been received yet.")); legend.replaceChildren(); return; }
  const width = Math.max(320, panel.clientWidth - 22), height = 30;
  const picture = shape("svg", { viewBox: "0 0 " + width + " " + height, role: "img" });
  let x = 0;
  const shown = PARTS.filter(([key]) => known(found.ratio[key]) && found.ratio[key] > 0.0005);
  shown.forEach(([key, text]) => {
    const size = Math.min(found.ratio[key] * width, width - x);
    const box = shape("rect", { x, y: 0, width: Math.max(0, size - 0.5), height, class: "bar b-" + key });
    const title = shape("title", {});
    title.textContent = text + " " + percent(found.ratio[key]) + ", " + seconds(found.seconds[key]);
    box.append(title);
    picture.append(box);
    x += size;
  });
  panel.replaceChildren(picture);
  legend.replaceChildren(...shown.map(([key, text]) => element("span", {},
    element("span", { className: "swatch b-" + key }), text + " " + percent(found.ratio[key]))));
}

// Which clock timed the steps, and how busy the devices are. Idle: nothing was enqueued ahead; an upper bound.
function timingWords(timing) {
  if (timing.clock === "host") return "Timed on the host" + (known(timing.reason) ? ": " + timing.reason : "") + ".";
  const kinds = timing.devices.length ? " (" + timing.devices.join(", ") + ")" : "";
  const idle = Object.entries(timing.idle_seconds).filter(([, value]) => known(value) && value > 0)
    .sort((one, other) => other[1] - one[1]).slice(0, 3).map(([phase, value]) => phase + " " + seconds(value));
  return "Timed on the device" + kinds + ", moments to within " + seconds(timing.clock_error_seconds)
    + ". It waits for its host up to " + percent(timing.idle_ratio) + " of the step"
    + (idle.length ? " (" + idle.join(", ") + ")" : "") + (timing.launch_bound ? ": launch-bound" : "")
    + ". The host is " + seconds(timing.host_lead_seconds) + " ahead.";
}

function drawCollectives(found) {
  const lastArriver = (item) => known(item.last_arriver)
    ? "rank " + item.last_arriver + " (" + percent(item.last_arriver_ratio, 0) + " of the skew)"
    : item.arrival_skew_seconds === 0 ? "none" : UNKNOWN;
  const bandwidth = (value) => known(value) ? bytes(value) + "/s" : UNKNOWN;
  document.querySelector("#collectives tbody").replaceChildren(...found.collectives.map((item) => row(
    item.op, memberOf(item), number(item.calls, 0), bytes(item.bytes), seconds(item.exposed_seconds),
    seconds(item.transfer_seconds), seconds(item.arrival_skew_seconds), lastArriver(item),
    bandwidth(item.bus_bytes_per_second))));
  const unknown = found.collectives.filter((item) => item.evaluated_steps < item.steps).length;
  const notes = [];
  if (!found.collectives.length) notes.push("No collective has been received for the newest steps.");
  if (unknown) notes.push("In " + unknown + " of " + found.collectives.length
    + " lines some steps are unknown: a member is missing, or the operation is point to point.");
  if (found.collectives.length) notes.push("Timed on the " + found.clock + ".");
  if (found.left_out) notes.push(found.left_out + " more lines that blocked less are not shown.");
  document.getElementById("collectives-note").textContent = notes.join(" ");
}

function drawStages(found) {
  document.querySelector("#stages tbody").replaceChildren(...(found ? found.stages : []).map((item) => row(
    String(item.stage), String(item.ranks), seconds(item.work_seconds), percent(item.busy_ratio),
    percent(item.pipeline_wait_ratio), percent(item.bubble_ratio))));
  const bubble = !found ? "" : " Bubble: " + percent(found.bubble_ratio) + " of the pipeline's time; "
    + (known(found.ideal_bubble_ratio)
      ? "the ideal of " + (found.schedule || "its schedule") + " is " + percent(found.ideal_bubble_ratio) + "."
      : "the ideal of its schedule is unknown.");
  document.getElementById("stages-note").textContent = !found ? "The job has one stage, or its stages are unknown."
    : !known(found.limiting_stage) ? "The limiting stage is unknown."
      : "Stage " + found.limiting_stage + " limits the pace in " + percent(found.limiting_ratio, 0)
        + " of the steps; it has " + number(found.imbalance_ratio) + " times the self time of the mean stage." + bubble;
}

const WORK = [["forward", "forward"], ["backward", "backward"], ["weight gradient", "backward part"]];
const STAGES_SHOWN = 64;

function chunkTitle(stage, chunk) {
  const blocked = chunk.blocked_seconds > 0 ? ", of it " + seconds(chunk.blocked_seconds) + " in collectives" : "";
  return "stage " + stage.stage + ", rank " + stage.rank + ": " + chunk.work + " of microbatch " + chunk.microbatch
    + ", " + seconds(chunk.seconds) + blocked + "; idle for " + seconds(chunk.idle_before_seconds) + " before it";
}

function chunkBox(stage, chunk, left, scale, y, height) {
  const x = left + chunk.began_seconds * scale, width = Math.max(0.5, chunk.seconds * scale - 0.5);
  const kind = WORK.find(([work]) => work === chunk.work)[1];
  const box = shape("rect", { x, y, width, height, class: "bar b-" + kind },
    shape("title", {}, chunkTitle(stage, chunk)));
  if (width < 8 * (1 + String(chunk.microbatch).length)) return [box];
  const label = shape("text", { x: x + width / 2, y: y + height / 2 + 4, class: "on-bar" }, String(chunk.microbatch));
  return [box, label];
}

function drawMicrobatches(found) {
  const panel = document.getElementById("microbatches"), legend = document.getElementById("microbatches-legend");
  const about = document.getElementById("microbatches-span");
  about.textContent = !found ? "" : "step " + found.step + ", the newest sampled one, of " + found.ranks + " ranks";
  legend.replaceChildren();
  if (!found) { panel.replaceChildren(note("No step of a pipeline has been sampled yet.")); return; }
  const left = 150, row = 26, height = 20, width = Math.max(320, panel.clientWidth - 22);
  const stages = found.stages.slice(0, STAGES_SHOWN);
  const end = Math.max(...stages.flatMap((stage) => stage.chunks.map((chunk) => chunk.began_seconds + chunk.seconds)));
  const scale = end > 0 ? (width - left) / end : 0;
  const picture = shape("svg", { viewBox: "0 0 " + width + " " + stages.length * row, role: "img" });
  stages.forEach((stage, index) => {
    picture.append(shape("text", { x: 0, y: index * row + 15 },
      "stage " + stage.stage + " · idle " + percent(stage.bubble_ratio)),
    ...stage.chunks.flatMap((chunk) => chunkBox(stage, chunk, left, scale, index * row, height)));
  });
  panel.replaceChildren(picture);
  const hidden = found.left_out + found.stages.length - stages.length;
  legend.replaceChildren(...WORK.map(([work, kind]) => element("span", {},
    element("span", { className: "swatch b-" + kind }), work)),
  element("span", { textContent: "blank: idle, or another stage of the rank; numbers: microbatch; " + seconds(end)
    + " across. A line shows the stage's first rank from when that entered the schedule: clocks of ranks are not compared."
    + " Idle is the mean of the stage's ranks." + (hidden ? " Not all stages and microbatches are shown." : "") }));
}

function drawWhatIf(found) {
  const isNone = (item) => item.faster_ratio === 0;
  document.querySelector("#what-if tbody").replaceChildren(...found.map((item) => row(
    item.scenario, seconds(item.step_seconds), isNone(item) ? "none beyond the run's own jitter" : gain(item.faster_ratio),
    isNone(item) ? "none" : known(item.device_hours) ? deviceTime(3600 * item.device_hours) + " in " + item.steps + " steps" : UNKNOWN)));
  if (found.every(isNone)) {
    const cell = element("td", { colSpan: 4, textContent: found.length ? "No rank held the others up beyond the run's own jitter."
      : "unknown: too few steps that every rank reported" });
    document.querySelector("#what-if tbody").replaceChildren(element("tr", {}, cell));
  }
}

function drawBreakdown(view, found) {
  drawStepTime(view.step_time_breakdown);
  document.getElementById("step-time-clock").textContent = timingWords(view.timing);
  drawCollectives(found);
  drawStages(view.pipeline);
  drawMicrobatches(view.microbatches);
  drawWhatIf(view.what_if);
}
