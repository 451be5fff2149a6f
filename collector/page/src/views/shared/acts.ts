/** What people can do about an incident. Pure. */
import type { Schemas } from "../../api/types";

/** An incident as a job or the list of incidents has it; without a response nothing was done. */
export type Answerable = Schemas["JobIncident"] | Schemas["IncidentAnswer"];

const NOTHING_DONE: Schemas["Response"] = { acknowledged: null, mitigated: null, owner: "", notes: [], silenced: null };

/** Returns what people did about an incident. */
export const responseOf = (incident: Answerable): Schemas["Response"] => incident.response ?? NOTHING_DONE;

/** A response; `unsilenced` ends a silence, the others are notes or a silence. */
export type Act = "acknowledged" | "reopened" | "assigned" | "silenced" | "unsilenced" | "mitigated" | "comment";

/** Returns what can be done: an incident that is over pages no more, so it is not silenced. */
export function actsOn(incident: Answerable): Act[] {
  if (incident.state !== "open") return ["assigned", "comment"];
  const { acknowledged, mitigated, silenced } = responseOf(incident);
  const isAnswered = acknowledged !== null || mitigated !== null;
  return [
    ...(acknowledged === null ? (["acknowledged"] as const) : []),
    "assigned",
    silenced === null ? "silenced" : "unsilenced",
    ...(mitigated === null ? (["mitigated"] as const) : []),
    ...(isAnswered ? (["reopened"] as const) : []),
    "comment",
  ];
}
