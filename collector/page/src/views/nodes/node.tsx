/** One node: its state, the parts that were at fault, its history, and the incidents that name it. */
import { useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { incidentPath, jobPath } from "../../app/place";
import { useTitle } from "../../app/title";
import type { ViewProps } from "../../app/views";
import { Loaded } from "../shared/loading";
import { Moment } from "../shared/moment";
import { State } from "../shared/state";
import { Table } from "../shared/table";
import { actionWords, NodeRows } from "./rows";

type Node = Schemas["NodeAnswer"];
type Incident = Schemas["IncidentAnswer"];
const MOST_INCIDENTS = 20;
const NODE_EVERY_MS = 5_000;
/** The collector reads the newest thousand for it. */
const INCIDENTS_EVERY_MS = 30_000;

/** The view. */
export function NodeView({ name }: ViewProps) {
  const path = `/v1/nodes/${encodeURIComponent(name)}`;
  const answer = useAnswer<Node>(path, { everyMs: NODE_EVERY_MS }).value;
  useTitle(name, null);
  return (
    <main>
      <p class="crumbs">
        <a href="/nodes">Nodes</a> / <b>{name}</b>
      </p>
      <h1 id="title">Node {name}</h1>
      <Loaded answer={answer}>
        {(node) => (
          <div class="stack">
            <NodeRows nodes={[node]} />
            <Incidents name={name} />
            <Parts parts={node.parts} />
            <History node={node} />
          </div>
        )}
      </Loaded>
    </main>
  );
}

function Incidents({ name }: { name: string }) {
  const answer = useAnswer<Schemas["IncidentsAnswer"]>(`/v1/incidents?node=${encodeURIComponent(name)}`, { everyMs: INCIDENTS_EVERY_MS }).value;
  const incidents = (answer.value?.incidents ?? []).filter((item): item is Incident => "id" in item);
  return (
    <section class="panel stack" id="incidents">
      <h2>Incidents on this node</h2>
      {!incidents.length && <p class="quiet">{answer.failure?.message ?? (answer.value ? "None is known." : "Loading.")}</p>}
      <ul class="plain stack">
        {incidents.slice(0, MOST_INCIDENTS).map((incident) => (
          <li key={incident.id}>
            <State word={incident.state} /> <Moment at={incident.opened_at} />{" "}
            <a href={incidentPath(incident.id)}>
              {incident.job}: {incident.summary}
            </a>
          </li>
        ))}
      </ul>
      {incidents.length > MOST_INCIDENTS && <p class="quiet">{incidents.length - MOST_INCIDENTS} older ones are not shown.</p>}
    </section>
  );
}

function Parts({ parts }: { parts: Node["parts"] }) {
  const rows = parts.map((part) => [
    part.part,
    <State word={part.health} />,
    actionWords(part.action),
    part.faults,
    <Moment at={part.last_seen} />,
  ]);
  return (
    <section class="panel stack">
      <h2>Parts that were at fault</h2>
      <Table id="parts" columns={["Part", "Health", "What to do", "Faults", "Last seen"]} rows={rows} empty="No part had a fault." />
    </section>
  );
}

const HISTORY = ["Began", "Ended", "Severity", "What", "Part", "Times", "Job", "Shown by"] as const;

function History({ node }: { node: Node }) {
  const rows = node.history.map((fact) => [
    <Moment at={fact.began} />,
    <Ended fact={fact} />,
    fact.severity,
    fact.title,
    fact.subject,
    fact.times,
    fact.job === null ? "-" : <a href={jobPath(fact.job)}>{fact.job}</a>,
    fact.text,
  ]);
  return (
    <section class="panel stack">
      <h2>History</h2>
      <Table id="history" columns={HISTORY} rows={rows} empty="No event was reported on this node." />
      {node.history_left_out > 0 && <p class="quiet">{node.history_left_out} older ones are not shown.</p>}
    </section>
  );
}

// A fault without a known end may have ended when its agent did.
function Ended({ fact }: { fact: Node["history"][number] }) {
  if (fact.present) return <>lasts</>;
  if (fact.ended !== null) return <Moment at={fact.ended} />;
  return (
    <>
      not reported; last seen <Moment at={fact.last_seen} />
    </>
  );
}
