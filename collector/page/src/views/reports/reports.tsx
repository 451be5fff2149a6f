/** Device-time by cause over days, the costliest incidents, jobs, classes, and money. */
import { useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { incidentPath, jobPath, nodePath, query, setQuery } from "../../app/place";
import { useTitle } from "../../app/title";
import { Columns } from "../../charts/stacked_bars";
import { CAUSES } from "../../theme/colours";
import { deviceTime, money, number, percent, short } from "../../words/quantities";
import { TableBehind } from "../shared/behind";
import { FigureList } from "../shared/figures";
import { Loaded } from "../shared/loading";
import { Moment } from "../shared/moment";
import { State } from "../shared/state";
import { Table } from "../shared/table";
import { columnsOf, costliest, dayTable, dayWords, partsOf, periodOf, worstLoss } from "./days";

type Report = Schemas["ReportAnswer"];
type Summed = Schemas["Summed"];
const PERIODS: Readonly<Record<string, string>> = { "1": "today", "7": "7 days", "28": "28 days" };
const EVERY_MS = 60_000;
const MOST_JOBS = 50;

/** The view. */
export function Reports() {
  const asked = query.value.get("days") ?? "7";
  const days = asked in PERIODS ? asked : "7";
  const { from, until } = periodOf(Number(days), Date.now() / 1000);
  const answer = useAnswer<Report>(`/v1/report?from=${from}&until=${until}`, { everyMs: EVERY_MS }).value;
  useTitle("Reports", null);
  return (
    <main>
      <h1 id="title">
        Report: {dayWords(from)} to {dayWords(until - 1)}
      </h1>
      <div class="row tools" role="toolbar" aria-label="Period">
        {Object.entries(PERIODS).map(([length, words]) => (
          <button key={length} type="button" class="chip" aria-pressed={length === days} onClick={() => setQuery({ days: length })}>
            {words}
          </button>
        ))}
        <button type="button" class="chip push" onClick={() => print()}>
          Print
        </button>
      </div>
      <Loaded answer={answer}>{(report) => (report.jobs.length ? <Shown report={report} /> : <Nothing />)}</Loaded>
    </main>
  );
}

function Nothing() {
  return (
    <div class="empty stack" id="empty">
      <p>
        No device-time is known in this period. A day is accounted while its job reports; accounts of days are kept for ever, with
        what the time was spent on.
      </p>
      <code class="command">stepwatch report --week</code>
    </div>
  );
}

function Shown({ report }: { report: Report }) {
  return (
    <div class="stack">
      <Figures report={report} />
      <Days report={report} />
      <Incidents report={report} />
      <Classes report={report} />
      <Jobs report={report} />
      <Nodes report={report} />
    </div>
  );
}

/** A price; "no rate" is no price of zero. */
const priceOf = ({ cost }: Summed): string => (cost ? money(cost.amount, cost.currency) : "no rate");

function Figures({ report }: { report: Report }) {
  const { total } = report;
  const figures = [
    [deviceTime(total.allocated_seconds), "allocated"],
    [percent(total.productive_ratio), "productive"],
    [priceOf(total), "price of all of it"],
    [short(total.tokens), "tokens"],
    [number(report.jobs.length, 0), "jobs"],
    [number(report.incident_count, 0), "incidents"],
  ] as const;
  return (
    <section class="panel" aria-label="Figures">
      <FigureList figures={figures} isFirstLarge />
      {!total.cost && <p class="quiet small">Prices need a rate for each day and class: start the collector with --rates FILE.</p>}
    </section>
  );
}

function Days({ report }: { report: Report }) {
  const columns = columnsOf(report);
  const causes = partsOf(report.total);
  const rows = causes.map(({ cause, seconds }) => [
    <span class="key">
      <i style={{ background: CAUSES[cause] ?? "transparent" }} /> {cause.replaceAll("-", " ")}
    </span>,
    deviceTime(seconds),
    percent(seconds / report.total.allocated_seconds),
    report.total.cost ? money((report.total.cost.amount * seconds) / report.total.allocated_seconds, report.total.cost.currency) : "no rate",
  ]);
  return (
    <section class="panel stack" id="days">
      <h2>Device-time by cause</h2>
      <Columns columns={columns} label={columns.map(({ words }) => words).join("; ")} />
      <p class="ends quiet small" aria-hidden="true">
        <span>{columns[0]?.name}</span>
        <span>UTC days; dashed: no data</span>
        <span>{columns.length > 1 ? columns.at(-1)?.name : ""}</span>
      </p>
      <Table id="causes" columns={["Cause", "Device-time", "Share", "Price at the mean rate"]} rows={rows} />
      <TableBehind title="Table of these days" table={() => dayTable(report)} />
    </section>
  );
}

function Incidents({ report }: { report: Report }) {
  const rows = report.incidents.map((item) => [
    <a href={incidentPath(item.id)}>{item.summary || item.kind}</a>,
    <a href={jobPath(item.job)}>{item.job}</a>,
    <State word={item.state} />,
    <Moment at={item.opened_at} />,
    deviceTime(item.device_seconds_lost),
  ]);
  return (
    <section class="panel stack">
      <h2>Costliest incidents</h2>
      <Table
        id="incidents"
        columns={["Incident", "Job", "State", "Opened", "Device-time lost"]}
        rows={rows}
        empty="No incident opened in this period."
      />
      {report.incident_count > rows.length && <p class="quiet small">{number(report.incident_count, 0)} in all.</p>}
    </section>
  );
}

/** The cells that jobs and classes share. */
const sumsOf = (sum: Summed): string[] => [
  deviceTime(sum.allocated_seconds),
  percent(sum.productive_ratio),
  worstLoss(sum),
  short(sum.tokens),
  priceOf(sum),
];
const SUMS = ["Device-time", "Productive", "Greatest loss", "Tokens", "Price"] as const;

function Classes({ report }: { report: Report }) {
  const rows = costliest(report.classes).map((item) => [item.job_class || "no class", number(item.jobs, 0), ...sumsOf(item)]);
  return (
    <section class="panel stack">
      <h2>Classes</h2>
      <Table id="classes" columns={["Class", "Jobs", ...SUMS]} rows={rows} />
    </section>
  );
}

function Jobs({ report }: { report: Report }) {
  const jobs = costliest(report.jobs);
  const rows = jobs.slice(0, MOST_JOBS).map((item) => [
    <a href={jobPath(item.job)}>{item.job}</a>,
    item.job_class || "no class",
    item.owner.project ?? "",
    ...sumsOf(item),
  ]);
  return (
    <section class="panel stack">
      <h2>Jobs</h2>
      <Table id="jobs" columns={["Job", "Class", "Project", ...SUMS]} rows={rows} />
      {jobs.length > MOST_JOBS && (
        <p class="quiet small">
          The {MOST_JOBS} with the most device-time of {number(jobs.length, 0)}; stepwatch report lists all.
        </p>
      )}
    </section>
  );
}

function Nodes({ report }: { report: Report }) {
  if (!report.nodes.length) return null;
  const rows = report.nodes.map((item) => [
    <a href={nodePath(item.node)}>{item.node}</a>,
    item.health === null ? "unknown" : <State word={item.health} />,
    number(item.incidents, 0),
    deviceTime(item.device_seconds_lost),
    `${number(item.faults_30d, 0)}${item.repeat_offender ? ", repeat offender" : ""}`,
  ]);
  return (
    <section class="panel stack">
      <h2>Nodes that incidents name</h2>
      <Table id="nodes" columns={["Node", "Health", "Incidents", "Device-time lost", "Faults 30 d"]} rows={rows} />
    </section>
  );
}
