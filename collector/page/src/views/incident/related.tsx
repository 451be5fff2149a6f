/** Other incidents on the same node. */
import { useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { incidentPath } from "../../app/place";
import { Moment } from "../shared/moment";
import { State } from "../shared/state";

type Incident = Schemas["IncidentAnswer"];
const MOST = 8;

/** The newest ones; nothing where the node is unknown. */
export function Related({ incident }: { incident: Incident }) {
  const isKnown = incident.node !== "unknown" && incident.node !== "";
  const path = isKnown ? `/v1/incidents?node=${encodeURIComponent(incident.node)}` : null;
  const answer = useAnswer<Schemas["IncidentsAnswer"]>(path).value;
  if (!isKnown) return null;
  const others = (answer.value?.incidents ?? []).filter(
    (other): other is Incident => "id" in other && other.id !== incident.id,
  );
  return (
    <section class="panel stack" id="related">
      <h2>Other incidents on {incident.node}</h2>
      {!others.length && <p class="quiet">{answer.failure?.message ?? (answer.value ? "None is known." : "Loading.")}</p>}
      <ul class="plain stack">
        {others.slice(0, MOST).map((other) => (
          <li key={other.id}>
            <State word={other.state} /> <Moment at={other.opened_at} />{" "}
            <a href={incidentPath(other.id)}>
              {other.job}: {other.summary}
            </a>
          </li>
        ))}
      </ul>
      {others.length > MOST && <p class="quiet">{others.length - MOST} older ones are not shown.</p>}
    </section>
  );
}
