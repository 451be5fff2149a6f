/** stepwatch itself: intake, evaluations, store, answers and faults of the collector. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Answer } from "../../api/answer";
import { getText, Refusal } from "../../api/client";
import { useTitle } from "../../app/title";
import { number, seconds, span, UNKNOWN } from "../../words/quantities";
import { Command } from "../shared/command";
import { Loaded } from "../shared/loading";
import { Moment } from "../shared/moment";
import { Table } from "../shared/table";
import { checkedOf, rateOf, type Samples, samplesOf, total, troublesOf } from "./metrics";

const EVERY_MS = 10_000;

/** Two readings: a counter's rate is the difference. */
interface Readings {
  at: number;
  samples: Samples;
  before: { at: number; samples: Samples } | null;
}

/** The view. */
export function Self() {
  const answer = useReadings();
  useTitle("stepwatch itself", null);
  return (
    <main>
      <h1 id="title">stepwatch itself</h1>
      <p class="quiet">The collector at {location.host}, by its own metrics. Alerts on them come with stepwatch.</p>
      <Loaded answer={answer}>{(readings) => <Shown readings={readings} />}</Loaded>
    </main>
  );
}

/** Reads the metrics now, and again while the tab is visible. */
function useReadings(): Answer<Readings> {
  const answer = useSignal<Answer<Readings>>({ value: null, failure: null, at: 0 });
  useEffect(() => {
    let isOver = false;
    const read = async (): Promise<void> => {
      if (document.visibilityState === "hidden" && answer.peek().value) return;
      const before = answer.peek().value;
      try {
        const samples = samplesOf(await getText("/metrics"));
        if (!isOver) answer.value = { value: { at: Date.now() / 1000, samples, before }, failure: null, at: Date.now() };
      } catch (error) {
        const failure = error instanceof Refusal ? error : new Refusal(0, String(error));
        if (!isOver) answer.value = { ...answer.peek(), failure };
      }
    };
    void read();
    const timer = setInterval(() => void read(), EVERY_MS);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, []);
  return answer.value;
}

function Shown({ readings }: { readings: Readings }) {
  const { samples } = readings;
  return (
    <div class="stack">
      <Troubles samples={samples} />
      <Part title="Receives" rows={received(readings)} id="received" />
      <Part title="Evaluates" rows={evaluated(samples)} id="evaluated" />
      <Part title="Stores and sends" rows={stored(samples)} id="stored" />
      <Part title="Serves" rows={served(readings)} id="served" />
    </div>
  );
}

function Troubles({ samples }: { samples: Samples }) {
  const troubles = troublesOf(samples);
  const { known, all } = checkedOf(samples);
  if (!troubles.length) {
    return (
      <p class="panel" id="well">
        <span class="state s-good">nothing is wrong</span> {known} checks of its metrics pass
        {known < all && `; ${all - known} are unknown, as this collector does not report them yet`}.
      </p>
    );
  }
  return (
    <section class="stack" id="troubles">
      {troubles.map(({ words, action }) => (
        <div key={words} class="notice stack">
          <b>{words}</b>
          <Command text={action} />
        </div>
      ))}
    </section>
  );
}

type Row = [string, string | ReturnType<typeof Moment>];

function Part({ id, title, rows }: { id: string; title: string; rows: readonly Row[] }) {
  return (
    <section class="panel stack">
      <h2>{title}</h2>
      <Table id={id} columns={["What", "Now"]} rows={rows} />
    </section>
  );
}

const count = (value: number | null): string => number(value, 0);
const perSecond = (value: number | null): string => (value === null ? UNKNOWN : `${number(value, 1)} a second`);

/** Counters by a label's value, in words: "12 accepted, 1 rejected". */
function split(samples: Samples, name: string, label: string): string {
  const known = samples.get(name);
  if (!known) return UNKNOWN;
  const parts = known.filter(({ value }) => value > 0);
  return parts.map(({ labels, value }) => `${count(value)} ${labels[label] ?? UNKNOWN}`).join(", ") || "none";
}

function received({ at, samples, before }: Readings): Row[] {
  return [
    ["Segments a second", perSecond(rateOf("segments_total", before, { at, samples }))],
    ["Segments since its start", split(samples, "segments_total", "verdict")],
    ["Time for the newest request of an agent", seconds(total(samples, "ingest_seconds"))],
    ["Requests refused", split(samples, "refused_requests_total", "reason")],
    ["Nodes by health", split(samples, "nodes", "health")],
  ];
}

function evaluated(samples: Samples): Row[] {
  return [
    ["Jobs evaluated here", count(total(samples, "jobs"))],
    ["Collectors that share the store", count(total(samples, "replicas"))],
    ["Time to evaluate every job", seconds(total(samples, "evaluation_seconds"))],
    ["Evaluations that ended in an error", count(total(samples, "evaluation_failures_total"))],
    ["Jobs being read from the store", count(total(samples, "jobs_restoring"))],
    ["Jobs in quarantine", count(total(samples, "jobs_quarantined"))],
  ];
}

function stored(samples: Samples): Row[] {
  const oldest = total(samples, "notices_oldest_seconds");
  return [
    ["Snapshots", split(samples, "snapshots_total", "verdict")],
    ["Segments that could not be read", count(total(samples, "segments_unreadable_total"))],
    ["Retention last went through", <Moment at={total(samples, "retention_timestamp_seconds")} />],
    ["Notices of a day", split(samples, "notices", "verdict")],
    ["The oldest notice waits", oldest === null ? UNKNOWN : oldest ? span(oldest) : "none waits"],
    ["Profiles of a day", split(samples, "profiles", "outcome")],
  ];
}

function served({ samples }: Readings): Row[] {
  return [
    ["Connections", count(total(samples, "connections"))],
    ["Connections refused or closed at a limit", count(total(samples, "connections_closed_total"))],
    ["Event streams: open tabs of the page", count(total(samples, "event_streams"))],
    ["Event streams refused", count(total(samples, "event_streams_refused_total"))],
  ];
}
