/** What people can do about an incident. Pure. */
import type { Schemas } from "../../api/types";

type Incident = Schemas["IncidentAnswer"];

/** A response; `unsilenced` ends a silence, the others are notes or a silence. */
export type Act = "acknowledged" | "reopened" | "assigned" | "silenced" | "unsilenced" | "mitigated" | "comment";

/** Returns what can be done: an incident that is over pages no more, so it is not silenced. */
export function actsOn(incident: Incident): Act[] {
  if (incident.state !== "open") return ["assigned", "comment"];
  const { acknowledged, mitigated, silenced } = incident.response;
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
