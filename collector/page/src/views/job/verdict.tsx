/** The first line of a job's page. */
import type { Schemas } from "../../api/types";
import { incidentPath } from "../../app/place";
import { clock } from "../../words/moments";
import { counted } from "../../words/quantities";
import { openIncidents, verdictOf } from "../../words/verdict";
import { responseOf } from "../shared/acts";
import { Respond } from "../shared/respond";
import { runbookPath } from "../shared/response";

/** The verdict with its first action. */
export function VerdictBanner({ job, onDone }: { job: Schemas["JobAnswer"]; onDone: () => void }) {
  const { tone, sentence, detail, incident } = verdictOf(job);
  const others = openIncidents(job).filter((other) => other !== incident);
  return (
    <section class={`verdict panel t-${tone}`} aria-label="Verdict" data-incident={incident?.id}>
      <div>
        <h1 class={`state s-${tone}`}>
          {incident ? <a href={incidentPath(incident.id)}>{sentence}</a> : sentence}
        </h1>
        {detail && <p class="quiet">{detail}</p>}
        {incident && <Answered incident={incident} />}
        {others.length > 0 && (
          <p class="small">
            {counted(others.length, "more open incident")}:{" "}
            {others.slice(0, 4).map((other, index) => (
              <>
                {index > 0 && ", "}
                <a key={other.id} href={incidentPath(other.id)}>
                  {other.kind.replaceAll("-", " ")}
                </a>
              </>
            ))}
          </p>
        )}
      </div>
      {incident && (
        <Respond
          incident={incident}
          offered={["acknowledged", "silenced", "unsilenced"]}
          lead={
            <a class="button primary" href={runbookPath(incident)}>
              Open runbook
            </a>
          }
          done={onDone}
        />
      )}
    </section>
  );
}

/** Who has the incident, and until when its pages are held. */
function Answered({ incident }: { incident: Schemas["JobIncident"] }) {
  const { acknowledged, owner, silenced } = responseOf(incident);
  const words = [
    acknowledged ? `acknowledged by ${acknowledged.by}` : "",
    owner ? `owner ${owner}` : "",
    silenced ? `silenced by ${silenced.by} until ${clock(silenced.until)}` : "",
  ].filter(Boolean);
  return words.length ? <p class="small">{words.join(" · ")}</p> : null;
}
