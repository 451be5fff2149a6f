/** Beside the board: the named rank against its peers, the first action, and what happened when. */
import type { Schemas } from "../../api/types";
import { Comparisons } from "../../charts/bars";
import { comparisonsOf } from "../../charts/comparisons";
import { Command } from "../shared/command";
import { Moment } from "../shared/moment";

type Incident = Schemas["JobIncident"];
const MOST_COMPARISONS = 3;
const MOST_EVENTS = 8;

/** What supports the verdict. */
export function IncidentSide({ incident }: { incident: Incident }) {
  const compared = comparisonsOf(incident.evidence).slice(0, MOST_COMPARISONS);
  return (
    <>
      {compared.length > 0 && (
        <>
          <h2>{incident.rank >= 0 ? `Rank ${incident.rank} against its peers` : "Evidence"}</h2>
          <Comparisons items={compared} />
        </>
      )}
      <FirstAction incident={incident} />
      <h2>Timeline</h2>
      <Timeline entries={incident.timeline} />
    </>
  );
}

/** The command that a responder runs first. */
export function FirstAction({ incident }: { incident: Incident }) {
  return (
    <>
      <h2>First action</h2>
      <Command text={`stepwatch runbook ${incident.runbook} --incident ${incident.id} --collector ${location.origin}`} />
    </>
  );
}

/** What happened when, the newest last. */
export function Timeline({ entries }: { entries: readonly Schemas["TimelineEntry"][] }) {
  return (
    <ol class="timeline small">
      {entries.slice(-MOST_EVENTS).map((entry) => (
        <li key={entry.at + entry.event}>
          <Moment at={entry.at} /> {entry.event}
          {entry.text ? `: ${entry.text}` : ""}
        </li>
      ))}
    </ol>
  );
}
