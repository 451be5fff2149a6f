/** Beside the board: the named rank against its peers, the first action, and what happened when. */
import type { Schemas } from "../../api/types";
import { type Comparison, Comparisons, sharesOf } from "../../charts/bars";
import { measure } from "../../words/quantities";
import { Moment } from "../shared/moment";

type Incident = Schemas["JobIncident"];
const MOST_COMPARISONS = 3;
const MOST_EVENTS = 8;

/** Returns evidence with a number as comparisons. */
export function comparisonsOf(evidence: readonly Schemas["Evidence"][]): Comparison[] {
  return evidence
    .filter((item) => item.value !== null && !item.text)
    .map((item) => {
      const peer = item.reference ?? null;
      const [share, peerShare] = peer === null ? [null, null] : sharesOf(item.value, peer);
      return { name: item.name, value: measure(item.value, item.unit), against: item.against, share, peerShare };
    });
}

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
      <code class="command">
        {`stepwatch runbook ${incident.runbook} --incident ${incident.id} --collector ${location.origin}`}
      </code>
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
