/** What an incident's facts add up to: its history in one list, and its cost up to now. */
import type { Schemas } from "../../api/types";

type Incident = Schemas["IncidentAnswer"];

/** A moment of an incident. */
export interface Event {
  at: number;
  words: string;
  /** Whether people did it. */
  byPeople: boolean;
}

/** Returns what happened, oldest first: what detectors saw, symptoms, and what people did. */
export function historyOf(incident: Incident): Event[] {
  const seen = incident.timeline.flatMap((entry) =>
    entry.at === null ? [] : [{ at: entry.at, words: seenWords(entry.event, entry.text), byPeople: false }],
  );
  const symptoms = incident.symptoms.map((symptom) => ({
    at: symptom.first_seen_at,
    words: `symptom: ${symptom.summary}`,
    byPeople: false,
  }));
  const notes = incident.response.notes.map((note) => ({ at: note.at, words: noteWords(note), byPeople: true }));
  return [...seen, ...symptoms, ...notes].sort((one, other) => one.at - other.at);
}

// The sentence at the top is not repeated at its opening.
const seenWords = (event: string, text: string): string =>
  event === "opened" || event === "reopened" || !text ? event : `${event}: ${text}`;

function noteWords(note: Schemas["Note"]): string {
  if (note.event === "comment") return `${note.by}: ${note.text}`;
  if (note.event === "assigned") return `assigned to ${note.text} by ${note.by}`;
  return `${note.event} by ${note.by}${note.text ? `: ${note.text}` : ""}`;
}

/** What an incident has cost; null is unknown. */
export interface Cost {
  deviceSeconds: number | null;
  money: number | null;
  currency: string;
  /** Device-seconds lost in each second; 0 once it is over. */
  rate: number;
}

const RUNS_ON_S = 60;

/**
 * Returns the cost `sinceAnswer` seconds after the answer came. While the incident is open it runs on
 * at its mean rate so far, for a minute at most: an answer that is older says nothing of now.
 */
export function costAfter(incident: Incident, sinceAnswer: number): Cost {
  const lost = incident.device_seconds_lost;
  // Zero seconds with an unknown share means unknown, not that nothing was lost.
  if (lost === null || (!lost && incident.throughput_lost_ratio === null)) {
    return { deviceSeconds: null, money: null, currency: "", rate: 0 };
  }
  const rate = incident.state === "open" ? meanRate(incident, lost) : 0;
  const more = rate * Math.min(Math.max(sinceAnswer, 0), RUNS_ON_S);
  const hasPrice = incident.cost !== null && lost > 0 && incident.currency !== "";
  const money = hasPrice ? (incident.cost ?? 0) * (1 + more / lost) : null;
  return { deviceSeconds: lost + more, money, currency: incident.currency, rate };
}

function meanRate(incident: Incident, lost: number): number {
  const seconds = incident.last_seen_at - (incident.began_at ?? incident.opened_at);
  return seconds > 0 ? lost / seconds : 0;
}

/** The metric in whose curve a kind of incident shows. */
export const metricOf = (kind: string): string =>
  ["loss-anomaly", "non-finite", "silent-corruption", "replica-drift"].includes(kind) ? "loss" : "step_seconds";

const LEAD_S = 300;

/** The range of the curve around an incident, Unix seconds; `to` is null while it is open. */
export function rangeOf(incident: Incident): { from: number; to: number | null } {
  const began = incident.began_at ?? incident.opened_at;
  const end = incident.state === "open" ? null : (incident.resolved_at ?? incident.last_seen_at);
  const lead = Math.max(LEAD_S, end === null ? 0 : (end - began) / 2);
  return { from: Math.floor(began - lead), to: end === null ? null : Math.ceil(end + lead) };
}
