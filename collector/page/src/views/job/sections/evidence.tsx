/** All evidence of a job's incidents, and what people did about them. */
import type { Schemas } from "../../../api/types";
import { incidentPath } from "../../../app/place";
import { measure } from "../../../words/quantities";
import { Moment } from "../../shared/moment";
import { Table } from "../../shared/table";

type Incident = Schemas["JobIncident"];
const MOST_INCIDENTS = 6;

/** The evidence of the first incidents, one table an incident. */
export function EvidenceTables({ incidents }: { incidents: readonly Incident[] }) {
  return (
    <>
      {incidents.slice(0, MOST_INCIDENTS).map((incident) => (
        <article key={incident.id} class="stack" id={`evidence-${incident.id}`}>
          <h3>
            <a href={incidentPath(incident.id)}>{incident.summary}</a>
          </h3>
          <EvidenceTable evidence={incident.evidence} />
          <Symptoms symptoms={incident.symptoms} />
          <ResponseNotes response={incident.response} />
        </article>
      ))}
    </>
  );
}

/** Every row of evidence, with what it is compared with. */
export function EvidenceTable({ evidence }: { evidence: Incident["evidence"] }) {
  const rows = evidence.map((item) => [
    item.name === "profile" ? <a href="#profiles">{item.name}</a> : item.name,
    item.text || measure(item.value, item.unit),
    item.against,
  ]);
  return <Table columns={["Evidence", "Value", "Compared with"]} rows={rows} />;
}

/** Incidents that this one explains. */
export function Symptoms({ symptoms }: { symptoms: Incident["symptoms"] }) {
  if (!symptoms.length) return null;
  return (
    <>
      <h3>Symptoms grouped under this incident</h3>
      <ul class="small">
        {symptoms.map((item) => (
          <li key={item.kind + item.summary}>
            {`${item.kind}: ${item.summary}, last seen `}
            <Moment at={item.seen_at} />
          </li>
        ))}
      </ul>
    </>
  );
}

/** Who took the incident, and what people wrote. */
export function ResponseNotes({ response }: { response: Incident["response"] }) {
  if (!response) return null;
  const notes = response.notes.filter((note) => note.text && note.event !== "assigned");
  return (
    <ul class="small">
      {response.acknowledged && <li>{`acknowledged by ${response.acknowledged.by}`}</li>}
      {response.mitigated && <li>{`mitigated by ${response.mitigated.by}`}</li>}
      {response.owner && <li>{`owner: ${response.owner}`}</li>}
      {notes.map((note) => (
        <li key={note.at + note.event}>
          <Moment at={note.at} /> {`${note.event} by ${note.by}: ${note.text}`}
        </li>
      ))}
    </ul>
  );
}
