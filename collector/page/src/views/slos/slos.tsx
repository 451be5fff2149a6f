/** Objectives of all jobs and classes, the least budget first; one of them where the address names it. */
import { useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { jobPath, query, setQuery } from "../../app/place";
import { useTitle } from "../../app/title";
import { number } from "../../words/quantities";
import { Loaded } from "../shared/loading";
import { State } from "../shared/state";
import { Table } from "../shared/table";
import { Budget } from "./budget";
import { classesOf, isUndecided, rowsOf, type SloRow, sloPath, targetWords, valueWords } from "./rows";
import { OneSlo } from "./slo";

/** Budgets move slowly. */
const EVERY_MS = 30_000;
const MOST_ROWS = 200;
const COLUMNS = ["SLO", "Job", "Class", "State", "Budget", "Good", "Target", "Burn rate", "Window"] as const;

/** The view. */
export function Slos() {
  const [job, name] = [query.value.get("job"), query.value.get("name")];
  return job && name ? <OneSlo key={job + name} job={job} name={name} /> : <AllSlos />;
}

function AllSlos() {
  const answer = useAnswer<Schemas["SlosAnswer"]>("/v1/slos", { everyMs: EVERY_MS }).value;
  useTitle("SLOs", null);
  return (
    <main>
      <h1 id="title">SLOs</h1>
      <Loaded answer={answer}>{({ jobs }) => <Shown rows={rowsOf(jobs)} hasJobs={jobs.length > 0} />}</Loaded>
    </main>
  );
}

function Shown({ rows, hasJobs }: { rows: readonly SloRow[]; hasJobs: boolean }) {
  if (!rows.length) return <NoSlos hasJobs={hasJobs} />;
  const wanted = query.value.get("class");
  const shown = wanted === null ? rows : rows.filter((row) => row.jobClass === wanted);
  return (
    <div class="stack">
      <p class="quiet" id="summary">
        {summaryOf(shown)}
      </p>
      <Classes rows={rows} wanted={wanted} />
      <section class="panel stack">
        <h2>Jobs</h2>
        <Table id="slos" columns={COLUMNS} rows={shown.slice(0, MOST_ROWS).map(cellsOf)} empty="No job of this class has an SLO." />
        {shown.length > MOST_ROWS && (
          <p class="quiet small">
            The {MOST_ROWS} with the least budget of {number(shown.length, 0)}; stepwatch slo lists all.
          </p>
        )}
      </section>
    </div>
  );
}

function summaryOf(rows: readonly SloRow[]): string {
  const count = (test: (row: SloRow) => boolean): number => rows.filter(test).length;
  const parts = [
    [count(({ slo }) => slo.state === "exhausted"), "exhausted"],
    [count(({ slo }) => slo.state === "burning"), "burning"],
    [count(({ slo }) => slo.state === "ok"), "kept"],
    [count(({ slo }) => isUndecided(slo)), "not evaluated"],
  ] as const;
  return parts.filter(([total]) => total).map(([total, words]) => `${number(total, 0)} ${words}`).join(", ");
}

function cellsOf({ job, jobClass, slo }: SloRow) {
  return [
    <a href={sloPath(job, slo.name)}>{slo.name}</a>,
    <a href={jobPath(job)}>{job}</a>,
    jobClass,
    <State word={slo.state} title={slo.reason} />,
    <Budget remaining={isUndecided(slo) ? null : slo.budget_remaining} words={isUndecided(slo) ? slo.reason || "unknown" : slo.budget} />,
    valueWords(slo),
    targetWords(slo),
    slo.limit === null ? number(slo.burn_rate, 1) : "",
    slo.window,
  ];
}

function Classes({ rows, wanted }: { rows: readonly SloRow[]; wanted: string | null }) {
  const lines = classesOf(rows.filter(({ slo }) => slo.limit === null));
  if (!lines.length) return null;
  const cells = lines.map((line) => [
    <button
      type="button"
      class="chip"
      aria-pressed={line.jobClass === wanted}
      onClick={() => setQuery({ class: line.jobClass === wanted ? null : line.jobClass })}
    >
      {line.jobClass}
    </button>,
    line.name,
    <Budget remaining={line.remaining} />,
    `${number(line.evaluated, 0)} of ${number(line.jobs, 0)}`,
    number(line.exhausted, 0),
  ]);
  return (
    <section class="panel stack">
      <h2>Classes</h2>
      <Table id="classes" columns={["Class", "SLO", "Budget of all its jobs", "Evaluated", "Exhausted"]} rows={cells} />
    </section>
  );
}

function NoSlos({ hasJobs }: { hasJobs: boolean }) {
  return (
    <div class="empty stack" id="empty">
      <p>
        {hasJobs
          ? "No job here has an objective. Objectives come from OpenSLO documents; classes of jobs say which apply."
          : "No job has reported yet. Each job gets the objectives of its class, and goodput without one."}
      </p>
      <code class="command">stepwatch slo check FILE</code>
    </div>
  );
}
