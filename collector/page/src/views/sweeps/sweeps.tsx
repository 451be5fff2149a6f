/** Trials that share the beginning of their names: what each reached, and what the best one cost. */
import { useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { jobPath, query, setQuery } from "../../app/place";
import { useTitle } from "../../app/title";
import { deviceTime, formatOf, money, number, short, UNKNOWN } from "../../words/quantities";
import { comparePath } from "../compare/state";
import { labelOf } from "../job/tracks";
import { TableBehind } from "../shared/behind";
import { FigureList } from "../shared/figures";
import { Loaded } from "../shared/loading";
import { State } from "../shared/state";
import { Table } from "../shared/table";
import { Scatter } from "./scatter";
import { bestOf, dotsOf, dotTable, isHigherBetter, numericSettings, prefixesOf, ranked, spentOn } from "./trials";

type Sweep = Schemas["SweepAnswer"];
type Trial = Schemas["Trial"];
const EVERY_MS = 30_000;
const MOST_ROWS = 200;
const MOST_COLUMNS = 6;
const COMPARED = 4;

/** The view. */
export function Sweeps() {
  const match = query.value.get("match")?.slice(0, 80) ?? "";
  const metric = query.value.get("metric") ?? "loss";
  const path = match ? `/v1/sweeps?match=${encodeURIComponent(match)}&metric=${encodeURIComponent(metric)}` : null;
  const answer = useAnswer<Sweep>(path, { everyMs: EVERY_MS }).value;
  useTitle(match ? `Sweep ${match}` : "Sweeps", null);
  return (
    <main>
      <h1 id="title">{match ? `Sweep ${match}` : "Sweeps"}</h1>
      <form
        class="row tools"
        onSubmit={(event) => {
          event.preventDefault();
          const text = event.currentTarget.querySelector("input")?.value.trim();
          setQuery({ match: text || null, setting: null });
        }}
      >
        <label>
          Names begin with <input key={match} name="match" defaultValue={match} maxLength={80} autocomplete="off" />
        </label>
        <button type="submit">Show</button>
      </form>
      {path === null ? <Offered /> : <Loaded answer={answer}>{(sweep) => (sweep.count ? <Shown sweep={sweep} /> : <NoTrials match={match} />)}</Loaded>}
    </main>
  );
}

function Offered() {
  const jobs = useAnswer<Schemas["JobsAnswer"]>("/v1/jobs").value.value?.jobs ?? [];
  const prefixes = prefixesOf(jobs.map(({ job }) => job));
  return (
    <div class="empty stack" id="empty">
      <p>
        A sweep is a set of jobs whose names begin alike, such as lr-sweep-001 and lr-sweep-002. Its page compares their settings with
        what each of them reached. Settings are what the hooks report of a run's configuration.
      </p>
      {prefixes.length > 0 && (
        <div class="row">
          {prefixes.map(({ prefix, count }) => (
            <button key={prefix} type="button" class="chip" onClick={() => setQuery({ match: prefix })}>
              {prefix} ({number(count, 0)} jobs)
            </button>
          ))}
        </div>
      )}
      <code class="command">stepwatch run --job lr-sweep-001 -- torchrun --nproc-per-node 8 train.py --lr 3e-4</code>
    </div>
  );
}

function NoTrials({ match }: { match: string }) {
  return (
    <p class="empty" id="empty">
      No job's name begins with {match}. Capital letters count. <a href="/sweeps">All sweeps</a>
    </p>
  );
}

function Shown({ sweep }: { sweep: Sweep }) {
  const trials = ranked(sweep.trials);
  const higher = isHigherBetter(trials);
  const label = labelOf({ name: sweep.metric, evaluation: sweep.evaluation });
  const format = formatOf(trials.find(({ value }) => value)?.value?.unit ?? "");
  const say = (value: number | null): string => (value === null ? UNKNOWN : format(value));
  const best = trials.find((trial) => bestOf(trial, higher) !== null) ?? null;
  return (
    <div class="stack">
      <Figures trials={trials} best={best} words={`best ${label}: the ${higher ? "highest" : "lowest"}`} value={say(best ? bestOf(best, higher) : null)} />
      <Picture sweep={sweep} trials={trials} best={best} label={label} format={format} />
      <section class="panel stack">
        <div class="row">
          <h2>Trials</h2>
          {trials.length > 1 && <a href={comparePath(trials.slice(0, COMPARED).map(({ job }) => job))}>Compare the best {Math.min(COMPARED, trials.length)}</a>}
        </div>
        <Trials sweep={sweep} trials={trials} label={label} say={(trial) => say(bestOf(trial, higher))} />
        {(trials.length > MOST_ROWS || sweep.count > trials.length) && (
          <p class="quiet small">
            The best {Math.min(MOST_ROWS, trials.length)} of {number(sweep.count, 0)}
            {sweep.count > trials.length && `; the newest ${trials.length} were read`}.
          </p>
        )}
      </section>
    </div>
  );
}

function Figures({ trials, best, words, value }: { trials: readonly Trial[]; best: Trial | null; words: string; value: string }) {
  const all = spentOn(trials);
  const running = trials.filter(({ state }) => state === "running" || state === "degraded").length;
  const price = (sum: ReturnType<typeof spentOn>): string => (sum.currency ? money(sum.money, sum.currency) : "no rate");
  const own = best ? spentOn([best]) : null;
  const figures: [string, string][] = [
    [value, words],
    [number(trials.length, 0), `trials, ${number(running, 0)} running`],
    [own ? deviceTime(own.seconds) : UNKNOWN, "device-time of the best"],
    [own ? price(own) : UNKNOWN, "price of the best"],
    [deviceTime(all.seconds), "device-time of all: what the best cost to find"],
    [price(all), "price of all"],
  ];
  return (
    <section class="panel" aria-label="Figures">
      <FigureList figures={figures} isFirstLarge />
      {best && (
        <p class="quiet small" id="best">
          Best trial: <a href={jobPath(best.job)}>{best.job}</a>
        </p>
      )}
    </section>
  );
}

interface PictureProps {
  sweep: Sweep;
  trials: readonly Trial[];
  best: Trial | null;
  label: string;
  format: (value: number) => string;
}

function Picture({ sweep, trials, best, label, format }: PictureProps) {
  const numeric = numericSettings(sweep);
  const asked = query.value.get("setting");
  const setting = asked !== null && numeric.includes(asked) ? asked : numeric[0];
  const dots = setting === undefined ? [] : dotsOf(trials, setting);
  const metrics = sweep.metrics.filter(({ evaluation }) => !evaluation).map(({ name }) => name);
  return (
    <section class="panel stack">
      <div class="row tools">
        <Choice label="Metric" value={sweep.metric} names={metrics.includes(sweep.metric) ? metrics : [sweep.metric, ...metrics]} onChoose={(metric) => setQuery({ metric })} />
        {setting !== undefined && <Choice label="Setting" value={setting} names={numeric} onChoose={(name) => setQuery({ setting: name })} />}
      </div>
      {setting === undefined ? (
        <p class="quiet" id="no-setting">
          No setting is a number that differs between trials: pass the configuration to the hooks, and it is drawn here.
        </p>
      ) : dots.length ? (
        <>
          <Scatter dots={dots} setting={setting} metric={label} best={best?.job ?? null} format={format} />
          <p class="quiet small">
            A filled dot is a finished trial, a ring one that is not; the large one is the best.
            {dots.length < trials.length && ` ${number(trials.length - dots.length, 0)} are not drawn: a number is unknown.`}
          </p>
          <TableBehind title="Table of these dots" table={() => dotTable(dots, setting, label, format)} />
        </>
      ) : (
        <p class="quiet">No trial has a value of {label} yet.</p>
      )}
    </section>
  );
}

function Choice({ label, value, names, onChoose }: { label: string; value: string; names: readonly string[]; onChoose: (name: string) => void }) {
  return (
    <label>
      {label}{" "}
      <select class="chip" value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
        {names.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function Trials({ sweep, trials, label, say }: { sweep: Sweep; trials: readonly Trial[]; label: string; say: (trial: Trial) => string }) {
  const settings = sweep.settings.slice(0, MOST_COLUMNS);
  const rows = trials.slice(0, MOST_ROWS).map((trial) => [
    <a href={jobPath(trial.job)}>{trial.job}</a>,
    <State word={trial.state} />,
    say(trial),
    ...settings.map((name) => trial.settings[name] ?? <span class="quiet">not reported</span>),
    short(trial.step),
    deviceTime(trial.device_seconds),
    trial.cost ? money(trial.cost.money, trial.cost.currency) : "no rate",
  ]);
  return <Table id="trials" columns={["Trial", "State", `Best ${label}`, ...settings, "Step reached", "Device-time", "Price"]} rows={rows} />;
}
