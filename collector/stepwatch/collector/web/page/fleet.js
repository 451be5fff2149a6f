"use strict";

function sloCell(slos) {
  const cell = element("span");
  slos.forEach((slo, index) => cell.append(index ? ", " : "", slo.name + " ", state(slo.state)));
  return cell;
}

const stateCell = (job) => element("span", {}, state(job.state), job.reason ? " " + job.reason : "", job.stale ? " " + staleWords(job) : "");
const openCell = (job) => !known(job.open_incidents) ? UNKNOWN : element("span", {},
  element("span", { className: job.open_incidents ? "state s-open" : "", textContent: String(job.open_incidents) }),
  ...job.worst ? [" ", element("a", { href: "/jobs/" + encodeURIComponent(job.job), textContent: job.worst.kind }), ": " + job.worst.summary] : []);

keepFresh(async () => {
  const { jobs } = await getJson("/v1/jobs");
  document.getElementById("empty").hidden = jobs.length > 0;
  document.querySelector("#jobs tbody").replaceChildren(...jobs.map((job) => row(
    element("a", { href: "/jobs/" + encodeURIComponent(job.job), textContent: job.job }),
    stateCell(job), known(job.attempt) ? String(job.attempt) : UNKNOWN, String(job.world_size || UNKNOWN),
    known(job.step) ? String(job.step) : UNKNOWN, openCell(job), sloCell(job.slos))));
}, 2000);
