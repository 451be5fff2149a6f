/** What the runbook says about one incident: the first action, the whole page, and when it is wrong. */
import type { Answer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { Command } from "../shared/command";
import { Nodes } from "../runbook/nodes";
import { Sections } from "../runbook/runbook";
import { runbookPath } from "../shared/response";

type Incident = Schemas["IncidentAnswer"];
const FALSE_POSITIVES = "False positives";

interface Props {
  incident: Incident;
  runbook: Answer<Schemas["RunbookAnswer"]>;
}

/** The first step with its commands. */
export function FirstAction({ incident, runbook }: Props) {
  const [first] = runbook.value?.first_steps ?? [];
  return (
    <section class="panel stack" id="first-action">
      <h2>First action</h2>
      {first ? (
        <>
          <p>{first.text}</p>
          {first.commands.length > 0 && <Command text={first.commands.join("\n")} />}
        </>
      ) : (
        <p class="quiet">{runbook.failure?.message ?? (runbook.value ? "The runbook names no first step." : "Loading.")}</p>
      )}
      <p>
        <a href={runbookPath(incident)}>Runbook {incident.runbook}</a>
      </p>
    </section>
  );
}

/** What would show that the incident is none. */
export function WrongIf({ incident, runbook }: Props) {
  const section = runbook.value?.sections.find(({ title }) => title === FALSE_POSITIVES);
  return (
    <section class="panel stack" id="wrong-if">
      <h2>Could this be wrong?</h2>
      <p>{CONFIDENCE[incident.confidence] ?? "The confidence of this finding is unknown."}</p>
      {section && <Nodes nodes={section.nodes} />}
    </section>
  );
}

const CONFIDENCE: Record<string, string> = {
  certain: "Facts show it: nothing else fits them.",
  likely: "It explains what was observed; another cause is possible.",
  "one of": "One of the named candidates is right; which one is unknown.",
};

/** The whole runbook, folded. */
export function RunbookOf({ runbook }: Pick<Props, "runbook">) {
  if (!runbook.value) return null;
  return (
    <details class="panel runbook" id="runbook">
      <summary>Runbook {runbook.value.name}, filled in</summary>
      <div class="stack">
        <Sections sections={runbook.value.sections} />
      </div>
    </details>
  );
}
