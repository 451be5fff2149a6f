/** A runbook, filled in for an incident. */
import { useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { incidentPath, jobPath, query } from "../../app/place";
import { useTitle } from "../../app/title";
import type { ViewProps } from "../../app/views";
import { Loaded } from "../shared/loading";
import { Nodes } from "./nodes";

/** A page for one runbook; the query chooses the incident or job that fills it in. */
export function Runbook({ name }: ViewProps) {
  const parameters = new URLSearchParams();
  for (const key of ["incident", "job"]) {
    const value = query.value.get(key);
    if (value !== null) parameters.set(key, value);
  }
  const answer = useAnswer<Schemas["RunbookAnswer"]>(`/v1/runbooks/${encodeURIComponent(name)}?${parameters}`).value;
  useTitle(name, null);
  return (
    <main>
      <Loaded answer={answer} heading={name}>
        {(runbook) => (
          <article class="runbook stack" id="page">
            <h1>{runbook.name}</h1>
            <p class="quiet" id="whose">
              <FilledFor runbook={runbook} />
            </p>
            <Contents sections={runbook.sections} />
            <Sections sections={runbook.sections} />
          </article>
        )}
      </Loaded>
    </main>
  );
}

function FilledFor({ runbook }: { runbook: Schemas["RunbookAnswer"] }) {
  if (runbook.incident === null || runbook.job === null) {
    return <>No incident is chosen: fill in the values in &lt;angle brackets&gt;.</>;
  }
  return (
    <>
      Filled in for <a href={incidentPath(runbook.incident)}>incident {runbook.incident}</a> of{" "}
      <a href={jobPath(runbook.job)}>{runbook.job}</a>.
    </>
  );
}

type Section = Schemas["RunbookSection"];
const anchor = (title: string): string => title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");

function Contents({ sections }: { sections: readonly Section[] }) {
  return (
    <nav class="row small" aria-label="Sections of the runbook">
      {sections
        .filter((section) => section.title)
        .map((section) => (
          <a key={section.title} href={`#${anchor(section.title)}`}>
            {section.title}
          </a>
        ))}
    </nav>
  );
}

/** The sections with their headings. */
export function Sections({ sections }: { sections: readonly Section[] }) {
  return (
    <>
      {sections.map((section) => (
        <section key={section.title} class="stack" id={section.title ? anchor(section.title) : undefined}>
          {section.title && <h2>{section.title}</h2>}
          <Nodes nodes={section.nodes} />
        </section>
      ))}
    </>
  );
}
