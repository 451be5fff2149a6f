/** The sentence that answers, in one look: is it training, what is wrong, since when. */
import type { Schemas } from "../api/types";
import { clock } from "./moments";
import { counted, deviceTime, money, number, percent, seconds } from "./quantities";

type Incident = Schemas["JobIncident"];
type Job = Schemas["JobAnswer"];

/** How a verdict is drawn. */
export type Tone = "good" | "bad" | "warn" | "unsure" | "ended";

/** A verdict: its sentence, what supports it, and the incident that it names. */
export interface Verdict {
  tone: Tone;
  sentence: string;
  detail: string;
  incident: Incident | null;
}

/** Returns the first clause of a summary and the rest: "rank 2 is slow: 250 ms" is cut at the colon. */
export function clauses(summary: string): [string, string] {
  const cut = summary.search(/[:;] /);
  return cut < 0 ? [summary, ""] : [summary.slice(0, cut), summary.slice(cut + 2)];
}

/** Returns an incident's sentence: "47% slower since 19:18:02: rank 21 on gpu-02 is slow in forward". */
export function incidentSentence(incident: Incident): string {
  const [fact] = clauses(summaryOf(incident));
  const lost = incident.throughput_lost_ratio_now ?? incident.throughput_lost_ratio;
  const where = incident.node && incident.rank >= 0 ? fact.replace(`rank ${incident.rank}`, `rank ${incident.rank} on ${incident.node}`) : fact;
  if (lost === null || lost < 0.005) return `${capital(where)}`;
  const loss = lost > 0.995 ? "No progress" : `${percent(lost, 0)} slower`;
  return `${loss} since ${clock(incident.began_at)}: ${where}`;
}

const summaryOf = (incident: Incident): string =>
  incident.state === "open" ? incident.summary_now || incident.summary : incident.summary;

/** Returns what supports an incident's sentence: numbers, cause, cost, confidence. */
export function incidentDetail(incident: Incident): string {
  const [, rest] = clauses(summaryOf(incident));
  const parts = [
    rest,
    incident.cause && incident.cause !== "unknown" ? `cause: ${incident.cause.replaceAll("-", " ")}` : "cause unknown",
    incident.device_seconds_lost ? `cost so far: ${costOf(incident)}` : "",
    incident.confidence,
  ];
  return parts.filter(Boolean).join(" · ");
}

/** Returns what an incident has cost: device time, and money where a rate is known. */
export function costOf(incident: Incident): string {
  const time = deviceTime(incident.device_seconds_lost);
  const hasPrice = incident.cost !== null && incident.currency;
  return hasPrice ? `${time} (${money(incident.cost, incident.currency)})` : time;
}

/** Returns the open incidents of a job, the costliest first. */
export function openIncidents(job: Job): Incident[] {
  const lost = (incident: Incident): number => incident.throughput_lost_ratio_now ?? incident.throughput_lost_ratio ?? -1;
  return job.incidents
    .filter((incident) => incident.state === "open")
    .sort((one, other) => lost(other) - lost(one) || one.opened_at - other.opened_at);
}

/** Returns the verdict of a job. */
export function verdictOf(job: Job): Verdict {
  const [worst = null] = openIncidents(job);
  if (job.stale) return stale(job, worst);
  if (worst) {
    const tone = worst.severity === "alert" ? "bad" : "warn";
    return { tone, sentence: incidentSentence(worst), detail: incidentDetail(worst), incident: worst };
  }
  const [tone, sentence] = withoutIncident(job);
  return { tone, sentence, detail: job.reason ?? past(job), incident: null };
}

/** Returns what happened before, in words; empty without any incident. */
function past(job: Job): string {
  const over = job.incidents.filter((incident) => incident.state !== "merged");
  const [costliest] = over.sort((one, other) => (other.device_seconds_lost ?? 0) - (one.device_seconds_lost ?? 0));
  return costliest ? `${counted(over.length, "incident")} before; the costliest: ${incidentSentence(costliest)}` : "";
}

function stale(job: Job, worst: Incident | null): Verdict {
  const was = job.stale?.state ? `; it was ${job.stale.state} then` : "";
  const sentence = `Nothing newer is known: ${job.stale?.reason ?? ""}${was}`;
  return { tone: "warn", sentence, detail: worst ? incidentSentence(worst) : "", incident: worst };
}

function withoutIncident(job: Job): [Tone, string] {
  const step = job.step === null ? "no step yet" : `step ${number(job.step, 0)}`;
  const pace = job.recent_step_seconds === null ? "" : `, ${seconds(job.recent_step_seconds)} a step`;
  switch (job.state) {
    case "running":
      return ["good", `Training: ${step}${pace}, ${counted(job.world_size, "rank")}`];
    case "finished":
      return ["ended", `Finished at ${step}`];
    case "failed":
      return ["bad", `Failed at ${step}`];
    case "interrupted":
      return ["ended", `Interrupted at ${step}`];
    case "unknown":
      return ["unsure", `Unknown whether it trains: too little telemetry arrives; last received ${clock(job.newest_record_at)}`];
    case "restoring":
    case "quarantined":
      return ["unsure", `${capital(job.state)}: not evaluated since ${clock(job.since)}`];
    default:
      return ["unsure", `${capital(job.state)} at ${step}`];
  }
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
