/** The first line of a job's page. */
import type { Schemas } from "../../api/types";
import { incidentPath } from "../../app/place";
import { counted } from "../../words/quantities";
import { openIncidents, verdictOf } from "../../words/verdict";
import { Actions } from "../shared/response";

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
      {incident && <Actions incident={incident} onDone={onDone} />}
    </section>
  );
}
