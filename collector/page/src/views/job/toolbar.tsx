/** What of the board is shown: range, axis, metrics, comparison, picture. */
import { useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { query, setQuery } from "../../app/place";
import { go, path } from "../../app/place";
import { savePicture } from "../shared/picture";
import { newestAttempt, referenceOf, referenceText, referenceWords } from "./comparison";
import { chosen, RANGES, takeRange, zoom } from "./state";
import { labelOf } from "./tracks";

const MATRIX: Readonly<Record<string, string>> = {
  self_time: "self time",
  step: "step time",
  forward: "forward",
  backward: "backward",
  optimizer: "optimizer",
  data: "data",
  collective_wait: "wait in collectives",
  pipeline_wait: "pipeline wait",
  device_idle: "device waits for its host",
};
const ROWS = { "": "ranks", node: "nodes", stage: "stages" } as const;

/** The toolbar. */
export function Toolbar({ job, attempts, sentence }: { job: string; attempts: readonly Schemas["Attempt"][]; sentence: string }) {
  const { axis, range, zoom: exact, smooth, logarithmic, matrix, by } = chosen.value;
  return (
    <div class="row tools" role="toolbar" aria-label="Board">
      {Object.keys(RANGES).map((name) => (
        <Chip key={name} pressed={!exact && range === name} onClick={() => takeRange(name)}>
          {name}
        </Chip>
      ))}
      {exact && <Chip pressed onClick={() => zoom(null)}>zoomed: show all ✕</Chip>}
      <Chip pressed={axis === "step"} onClick={() => setQuery({ axis: null })}>by step</Chip>
      <Chip pressed={axis === "time"} onClick={() => setQuery({ axis: "time" })}>by time</Chip>
      <Chip pressed={smooth} onClick={() => setQuery({ smooth: smooth ? null : "1" })}>smooth</Chip>
      <Chip pressed={logarithmic} onClick={() => setQuery({ log: logarithmic ? null : "1" })}>log</Chip>
      <MetricChoice job={job} />
      <CompareChoice job={job} attempts={attempts} />
      <Choice label="Matrix" value={matrix} options={MATRIX} onChoose={(value) => setQuery({ matrix: value === "self_time" ? null : value })} />
      <Choice label="Rows" value={by ?? ""} options={ROWS} onChoose={(value) => setQuery({ by: value || null, ranks: null })} />
      <button class="chip push" type="button" onClick={() => void saveBoard(job, sentence)}>
        Download picture
      </button>
    </div>
  );
}

function Chip({ pressed, onClick, children }: { pressed: boolean; onClick: () => void; children: preact.ComponentChildren }) {
  return (
    <button type="button" class="chip" aria-pressed={pressed} onClick={onClick}>
      {children}
    </button>
  );
}

interface ChoiceProps {
  label: string;
  value: string;
  options: Readonly<Record<string, string>>;
  onChoose: (value: string) => void;
}

function Choice({ label, value, options, onChoose }: ChoiceProps) {
  return (
    <select class="chip" aria-label={label} id={label.toLowerCase()} value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
      {Object.entries(options).map(([name, words]) => (
        <option key={name} value={name}>
          {words}
        </option>
      ))}
    </select>
  );
}

function MetricChoice({ job }: { job: string }) {
  const answer = useAnswer<Schemas["SeriesAnswer"]>(`/v1/jobs/${encodeURIComponent(job)}/series?points=50`).value.value;
  const shown = chosen.value.metrics;
  const more = (answer?.available ?? []).filter(({ name, evaluation }) => !evaluation && !shown.includes(name));
  const options = Object.fromEntries(more.map((item) => [item.name, labelOf(item)]));
  if (!more.length && !shown.length) return null;
  return (
    <>
      <Choice label="Metric" value="" options={{ "": "+ metric", ...options }} onChoose={(name) => setMetrics([...shown, name])} />
      {shown.map((name) => (
        <Chip key={name} pressed onClick={() => setMetrics(shown.filter((other) => other !== name))}>
          {name} ✕
        </Chip>
      ))}
    </>
  );
}

function setMetrics(names: readonly string[]): void {
  const next = new URLSearchParams(query.value);
  next.delete("metric");
  for (const name of names) if (name) next.append("metric", name);
  const text = next.toString();
  go(path.value + (text ? `?${text}` : ""), true);
}

async function saveBoard(job: string, sentence: string): Promise<void> {
  const parts = document.querySelectorAll(".board > :not(.behind)");
  await savePicture({ file: job, heading: job, sentence, parts: [...parts] });
}

/** Offers the job's former attempts, and other jobs; the address may name an attempt of another job. */
function CompareChoice({ job, attempts }: { job: string; attempts: readonly Schemas["Attempt"][] }) {
  const jobs = useAnswer<Schemas["JobsAnswer"]>("/v1/jobs").value.value?.jobs ?? [];
  const newest = newestAttempt(attempts);
  const former = attempts.map(({ attempt }) => attempt).filter((attempt) => attempt !== newest).reverse();
  const named = referenceOf(chosen.value.compare);
  const references = [
    ...former.map((attempt) => ({ job, attempt })),
    ...jobs.map((line) => ({ job: line.job, attempt: null })).filter((line) => line.job !== job),
    ...(named ? [named] : []),
  ];
  if (!references.length) return null;
  const options = Object.fromEntries(references.map((one) => [referenceText(one), `with ${referenceWords(job, one)}`]));
  return (
    <Choice
      label="Compare"
      value={chosen.value.compare}
      options={{ "": "+ compare", ...options }}
      onChoose={(name) => setQuery({ compare: name || null })}
    />
  );
}
