/** The fleet: what needs action first, then all other jobs. */
import { useEffect, useMemo } from "preact/hooks";
import type { Answer } from "../../api/answer";
import { useJobLines } from "../../api/lines";
import { countedOpen, fleetFigures } from "../../app/figures";
import { incidentPath, jobPath, query } from "../../app/place";
import { useTitle } from "../../app/title";
import { clock } from "../../words/moments";
import { counted, money, number, percent, UNKNOWN } from "../../words/quantities";
import { arranged, devicesOf, type Line, matching, needOf, wantedOf, withUnnamedNodes } from "./arrange";
import "./fleet.css";
import { Rows } from "./rows";
import { sentenceOf } from "./sentence";
import { Toolbar } from "./toolbar";
import { FigureList } from "../shared/figures";

/** All jobs. */
export function Fleet() {
  const answer = useJobLines().value;
  const lines = answer.value?.jobs ?? null;
  const open = lines?.reduce((sum, line) => sum + (line.open_incidents ?? 0), 0) ?? null;
  const hasAlert = lines?.some((line) => needOf(line) === "act") ?? false;
  useEffect(() => {
    countedOpen.value = open === null ? null : { count: open, hasAlert };
    return () => {
      countedOpen.value = null;
    };
  }, [open, hasAlert]);
  useTitle("Fleet", open);
  return (
    <main>
      {!lines && <h1>Fleet</h1>}
      {answer.failure && <Failed answer={answer} />}
      {lines ? lines.length ? <Jobs lines={lines} /> : <NoJobs /> : !answer.failure && <Loading />}
    </main>
  );
}

function Jobs({ lines }: { lines: readonly Line[] }) {
  const wanted = wantedOf(query.value);
  const items = useMemo(() => arranged(matching(lines, wanted), wanted), [lines, query.value]);
  const unnamed = wanted.node ? withUnnamedNodes(lines) : 0;
  return (
    <>
      <Sentence lines={lines} />
      <Figures lines={lines} />
      <Toolbar lines={lines} wanted={wanted} />
      {unnamed > 0 && <p class="quiet small">{counted(unnamed, "job")} with many nodes may use {wanted.node}, too: only some of their nodes are named here.</p>}
      {items.length ? (
        <Rows items={items} wanted={wanted} hasMoney={lines.some((line) => line.cost_today)} />
      ) : (
        <p class="empty">No job is like this: “show all” removes what narrows the list.</p>
      )}
    </>
  );
}

function Sentence({ lines }: { lines: readonly Line[] }) {
  const { tone, parts, rest, worst } = sentenceOf(lines);
  const words = (
    <>
      {parts[0]}
      {parts[1] && <bdi>{parts[1]}</bdi>}
      {parts[2]}
    </>
  );
  const to = worst && (worst.worst ? incidentPath(worst.worst.id) : jobPath(worst.job));
  return (
    <section class={`verdict panel t-${tone}`} aria-label="Verdict">
      <div>
        <h1 class={`state s-${tone}`}>{to ? <a href={to}>{words}</a> : words}</h1>
        {rest && <p class="quiet">{rest}</p>}
      </div>
    </section>
  );
}

/** One strip of figures of the whole fleet; devices are counted here, so that they agree with the list. */
function Figures({ lines }: { lines: readonly Line[] }) {
  const { busy, known } = devicesOf(lines);
  const figures = fleetFigures.value;
  const price = figures?.cost_today ?? null;
  const pages = figures?.pages_this_week ?? null;
  const strip = [
    [number(busy, 0), `of ${counted(known, "device")} busy`],
    [percent(figures?.goodput_today), "goodput today"],
    [price ? money(price.amount, price.currency) : UNKNOWN, figures && !price ? "money today: no rate" : "money today"],
    [number(pages, 0), pages === 1 ? "page this week" : "pages this week"],
  ] as const;
  return (
    <FigureList id="figures" figures={strip} />
  );
}

function Loading() {
  return (
    <p class="quiet" aria-busy="true">
      Loading the jobs.
    </p>
  );
}

/** Says what the reader can do; the former list stays below, and is old. */
function Failed({ answer }: { answer: Answer<unknown> }) {
  const { failure, at } = answer;
  return (
    <div class="notice stack" role="alert" id="failed">
      <p>
        {at ? `No new data since ${clock(at / 1000)}` : "No data"}: {failure?.message}.{at > 0 && " The list below is old."}
      </p>
      {failure?.status === 0 && (
        <>
          <p class="small">This page asks again every few seconds. See whether the collector runs, and whether this machine reaches it:</p>
          <code class="command">curl -sS {location.origin}/healthz</code>
        </>
      )}
    </div>
  );
}

function NoJobs() {
  return (
    <div class="empty stack" id="empty">
      <h1>No job has reported yet</h1>
      <p>Start the agent on each node, then the training with the hooks:</p>
      <code class="command">stepwatch agent --collector {location.origin}</code>
      <code class="command">stepwatch run -- torchrun --nproc-per-node 8 train.py</code>
      <p>The job is here within seconds of its first step; this page needs no reload.</p>
    </div>
  );
}
