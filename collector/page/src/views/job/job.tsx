/** A job: one sentence, one picture, and everything else folded below. */
import { type ReadonlySignal, useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { changes, useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { useTitle } from "../../app/title";
import type { ViewProps } from "../../app/views";
import { counted, measure } from "../../words/quantities";
import { openIncidents, verdictOf } from "../../words/verdict";
import { Loaded } from "../shared/loading";
import { Moment } from "../shared/moment";
import { State } from "../shared/state";
import { Fold, Table } from "../shared/table";
import { incidentPath } from "../../app/place";
import { Board } from "./board";
import { Drawer, type Selected } from "./drawer";
import { Figures } from "./figures";
import { Notices, TrackerRuns } from "./notices";
import { type LivePoints, useLivePoints, withFacts } from "./points";
import { Collectives } from "./sections/collectives";
import { EvidenceTables } from "./sections/evidence";
import { Attempts, Checkpoints, Slos, Spent } from "./sections/objectives";
import { Microbatches, Stages, WhatIf } from "./sections/pipeline";
import { Profiles } from "./sections/profiles";
import { RanksByCost, StepTime } from "./sections/time";
import { IncidentSide } from "./side";
import { Toolbar } from "./toolbar";
import { VerdictBanner } from "./verdict";

type Answer = Schemas["JobAnswer"];

/** The step and the loss come with events; cost, budgets and shares move slowly. */
const SLOW_FIGURES_MS = 30_000;

/** The page of a job. */
export function Job({ name }: ViewProps) {
  const again = useSignal(0);
  const path = `/v1/jobs/${encodeURIComponent(name)}?ranks=none${again.value ? `&again=${again.value}` : ""}`;
  const asked = useRef(0);
  const answer = useAnswer<Answer>(path, {
    topic: `job:${name}`,
    concerns: (event, data) => {
      const isDue = Date.now() - asked.current > SLOW_FIGURES_MS || changes("summary")(event, data);
      if (isDue) asked.current = Date.now();
      return isDue;
    },
  }).value;
  const live = useLivePoints(name);
  useTitle(name, answer.value?.open_incidents);
  return (
    <main>
      <Crumbs name={name} job={answer.value} />
      <Loaded answer={answer} heading={`Job ${name}`}>{(job) => <Shown job={withFacts(job, live.value)} live={live} onDone={() => (again.value += 1)} />}</Loaded>
    </main>
  );
}

function Crumbs({ name, job }: { name: string; job: Answer | null }) {
  const about = job ? ` · attempt ${job.attempt ?? "unknown"} · ${counted(job.world_size, "rank")}` : "";
  return (
    <p class="crumbs">
      <a href="/">Fleet</a> / <b>{name}</b>
      {about} {job && <State word={job.state} />}
    </p>
  );
}

interface ShownProps {
  job: Answer;
  live: ReadonlySignal<LivePoints>;
  onDone: () => void;
}

function Shown({ job, live, onDone }: ShownProps) {
  const selected = useSignal<Selected | null>(null);
  const [worst] = openIncidents(job);
  const isWithheld = ["restoring", "quarantined", "crowded-out"].includes(job.state);
  return (
    <div class="stack">
      <VerdictBanner job={job} onDone={onDone} />
      <Figures job={job} />
      <TrackerRuns links={job.links} />
      <Notices job={job} />
      {!isWithheld && (
        <>
          <Toolbar job={job.job} attempts={job.attempts} sentence={verdictOf(job).sentence} />
          <div class={worst || selected.value ? "beside" : ""}>
            <div class="panel">
              <Board
                job={job.job}
                attempts={job.attempts}
                newest={job.newest_record_at}
                live={live}
                onCell={(rank, steps, at) => (selected.value = { rank, steps, at })}
              />
            </div>
            {(worst || selected.value) && (
              <aside class="stack">
                {selected.value && <Drawer job={job} selected={selected.value} onClose={() => (selected.value = null)} />}
                {worst && (
                  <section class="panel stack" aria-label="Worst incident">
                    <IncidentSide incident={worst} />
                  </section>
                )}
              </aside>
            )}
          </div>
          <Sections job={job} />
        </>
      )}
    </div>
  );
}

function Sections({ job }: { job: Answer }) {
  const incidents = inOrder(job.incidents);
  const { pipeline } = job;
  return (
    <>
      <Fold id="incidents" title="Incidents" note={counted(job.incidents.length, "incident")}>
        {() => <Incidents incidents={incidents} />}
      </Fold>
      {incidents.length > 0 && (
        <Fold id="evidence" title="Evidence">
          {() => <EvidenceTables incidents={incidents} />}
        </Fold>
      )}
      <Fold id="time" title="Where the time goes" note="by part, and ranks by cost">
        {() => (
          <>
            <StepTime job={job} />
            <RanksByCost job={job} />
            <WhatIf scenarios={job.what_if} />
            <Spent job={job} />
          </>
        )}
      </Fold>
      {pipeline && (
        <Fold id="pipeline" title="Pipeline" note={counted(pipeline.stages.length, "stage")}>
          {() => (
            <>
              <Stages pipeline={pipeline} />
              <Microbatches found={job.microbatches} />
            </>
          )}
        </Fold>
      )}
      <Fold id="collectives" title="Collectives">
        {() => <Collectives job={job.job} />}
      </Fold>
      <Fold id="checkpoints" title="Checkpoints" note={counted(job.checkpoints.length, "save")}>
        {() => <Checkpoints items={job.checkpoints} />}
      </Fold>
      <Fold id="slos" title="SLOs" note={job.slos.map((slo) => `${slo.name}: ${slo.state}`).join(", ")}>
        {() => <Slos job={job.job} slos={job.slos} />}
      </Fold>
      <Fold id="attempts" title="Attempts" note={counted(job.attempts.length, "attempt")}>
        {() => <Attempts items={job.attempts} />}
      </Fold>
      <Fold id="profiles" title="Profiles">
        {() => <Profiles job={job.job} />}
      </Fold>
    </>
  );
}

const ORDER = ["open", "ended", "resolved", "merged"];

const inOrder = (incidents: readonly Schemas["JobIncident"][]): Schemas["JobIncident"][] =>
  [...incidents].sort(
    (one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state) || other.opened_at - one.opened_at,
  );

function Incidents({ incidents }: { incidents: readonly Schemas["JobIncident"][] }) {
  const rows = incidents.map((incident) => [
    <State word={incident.state} />,
    <a href={incidentPath(incident.id)}>{incident.summary}</a>,
    incident.cause.replaceAll("-", " "),
    <Moment at={incident.began_at} />,
    measure(incident.throughput_lost_ratio, "ratio"),
  ]);
  return <Table id="incidents-table" columns={["State", "Incident", "Cause", "Began", "Throughput lost"]} rows={rows} />;
}
