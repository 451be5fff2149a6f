/** Which runs are compared. */
import { useSignal } from "@preact/signals";
import { useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { jobPath } from "../../app/place";
import { MOST_RUNS, type RunStyle } from "./overlay";
import { compared, setAll } from "./state";

/** A run's line as it is drawn in the tracks. */
export function Swatch({ style }: { style: RunStyle }) {
  return (
    <svg class="swatch" viewBox="0 0 30 8" aria-hidden="true">
      <line x1="0" y1="4" x2="30" y2="4" stroke={`var(${style.colour})`} stroke-dasharray={style.dash.join(" ")} />
    </svg>
  );
}

/** The chosen runs, and a field that adds one. */
export function Choice({ styles }: { styles: readonly RunStyle[] }) {
  const { jobs } = compared.value;
  return (
    <div class="row tools" id="runs">
      {styles.map((style) => (
        <span key={style.label} class="chip run">
          <Swatch style={style} /> <a href={jobPath(style.label)}>{style.label}</a>{" "}
          <button
            type="button"
            class="plain-button"
            aria-label={`Remove ${style.label}`}
            onClick={() => setAll("job", jobs.filter((job) => job !== style.label))}
          >
            ✕
          </button>
        </span>
      ))}
      {jobs.length < MOST_RUNS && <Add />}
    </div>
  );
}

function Add() {
  const text = useSignal("");
  const asked = text.value.trim().slice(0, 80);
  const answer = useAnswer<Schemas["SearchAnswer"]>(asked ? `/v1/search?q=${encodeURIComponent(asked)}` : null).value.value;
  const names = (answer?.jobs ?? []).map((item) => item.name).filter((name) => !compared.value.jobs.includes(name));
  const add = (name: string): void => {
    text.value = "";
    setAll("job", [...compared.value.jobs, name]);
  };
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        const [best] = names;
        if (best) add(names.includes(asked) ? asked : best);
      }}
    >
      <input
        aria-label="Add a run"
        placeholder="add a run"
        list="run-names"
        autocomplete="off"
        value={text.value}
        onInput={(event) => (text.value = event.currentTarget.value)}
      />
      <datalist id="run-names">
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <button type="submit" class="chip" disabled={!names.length}>
        Add
      </button>
    </form>
  );
}

const MOST_OFFERED = 20;

/** What to do without runs to compare: the newest ones are offered. */
export function NoRuns() {
  const lines = useAnswer<Schemas["JobsAnswer"]>("/v1/jobs").value.value?.jobs;
  const chosen = compared.value.jobs;
  const names = (lines ?? []).map((line) => line.job).filter((name) => !chosen.includes(name));
  return (
    <div class="empty stack" id="empty">
      <p>
        {chosen.length ? "Choose a second run." : "Choose two to eight runs."} Their curves lie over each other, with a table of
        figures and of what differs in their configuration. The address holds the choice: send it as a link.
      </p>
      {names.length > 0 && (
        <div class="row">
          {names.slice(0, MOST_OFFERED).map((name) => (
            <button key={name} type="button" class="chip" onClick={() => setAll("job", [...chosen, name])}>
              {name}
            </button>
          ))}
        </div>
      )}
      {lines?.length === 0 && <code class="command">stepwatch run -- torchrun --nproc-per-node 8 train.py</code>}
    </div>
  );
}
