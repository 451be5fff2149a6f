/** One node: its state, the parts that were at fault, its history, and the incidents that name it. */
import type { ComponentChildren } from "preact";
import { useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { incidentPath, jobPath } from "../../app/place";
import { useTitle } from "../../app/title";
import type { ViewProps } from "../../app/views";
import { Loaded } from "../shared/loading";
import { Moment } from "../shared/moment";
import { State } from "../shared/state";
import { NODES_EVERY_MS } from "./nodes";
import { actionWords, NodeRows } from "./rows";

type Node = Schemas["NodeAnswer"];
type Incident = Schemas["IncidentAnswer"];
const MOST_INCIDENTS = 20;

/** The view. */
export function NodeView({ name }: ViewProps) {
  const path = `/v1/nodes/${encodeURIComponent(name)}`;
  const answer = useAnswer<Node>(path, { everyMs: NODES_EVERY_MS }).value;
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
  const answer = useAnswer<Schemas["IncidentsAnswer"]>(`/v1/incidents?node=${encodeURIComponent(name)}`, { everyMs: NODES_EVERY_MS }).value;
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

function Table({ id, headings, rows }: { id: string; headings: readonly string[]; rows: ComponentChildren }) {
  return (
    <div class="wide">
      <table id={id}>
        <thead>
          <tr>
            {headings.map((words) => (
              <th key={words}>{words}</th>
            ))}
          </tr>
        </thead>
        <tbody>{rows}</tbody>
      </table>
    </div>
  );
}

function Parts({ parts }: { parts: Node["parts"] }) {
  const rows = parts.map((part) => (
    <tr key={part.part}>
      <td>{part.part}</td>
      <td>
        <State word={part.health} />
      </td>
      <td>{actionWords(part.action)}</td>
      <td>{part.faults}</td>
      <td>
        <Moment at={part.last_seen} />
      </td>
    </tr>
  ));
  return (
    <section class="panel stack">
      <h2>Parts that were at fault</h2>
      {parts.length ? (
        <Table id="parts" headings={["Part", "Health", "What to do", "Faults", "Last seen"]} rows={rows} />
      ) : (
        <p class="quiet">No part of it was.</p>
      )}
    </section>
  );
}

const HISTORY = ["Began", "Ended", "Severity", "What", "Part", "Times", "Job", "Shown by"] as const;

function History({ node }: { node: Node }) {
  const rows = node.history.map((fact, index) => (
    <tr key={index}>
      <td>
        <Moment at={fact.began} />
      </td>
      <td>
        <Ended fact={fact} />
      </td>
      <td>{fact.severity}</td>
      <td>{fact.title}</td>
      <td>{fact.subject}</td>
      <td>{fact.times}</td>
      <td>{fact.job === null ? "-" : <a href={jobPath(fact.job)}>{fact.job}</a>}</td>
      <td>{fact.text}</td>
    </tr>
  ));
  return (
    <section class="panel stack">
      <h2>History</h2>
      {node.history.length ? (
        <Table id="history" headings={HISTORY} rows={rows} />
      ) : (
        <p class="quiet">No fact about this node was ever reported.</p>
      )}
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
