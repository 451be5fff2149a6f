/** Tables of compared runs: figures, and what differs in configuration. */
import type { ComponentChildren } from "preact";
import { jobPath } from "../../app/place";
import { deviceTime, money, number, percent, seconds, short, UNKNOWN } from "../../words/quantities";
import { State } from "../shared/state";
import { Table } from "../shared/table";
import { Swatch } from "./choice";
import type { Compared } from "./compare";
import { changesOf, figuresOf } from "./figures";
import { commonStep, curveOf, valueAt } from "./overlay";

/** Figures, one row a run; the loss is that of the last step that all runs have. */
export function FiguresTable({ all }: { all: readonly Compared[] }) {
  const losses = all.map(({ series }) => {
    const loss = series.value?.series.find(({ name, evaluation }) => name === "loss" && !evaluation);
    return loss ? curveOf(loss, "step", null) : null;
  });
  const common = commonStep(losses.filter((curve) => curve !== null));
  const columns = [
    "Run", "State", "Ranks", "Steps", "Step time", "Tokens/s",
    common === null ? "Loss" : `Loss at step ${number(common, 0)}`,
    "Productive", "Incidents", "Device-time", "Cost",
  ];
  const rows = all.map(({ style, run }, place) => {
    const curve = losses[place] ?? null;
    const name = (
      <span class="run">
        <Swatch style={style} /> <a href={jobPath(style.label)}>{style.label}</a>
      </span>
    );
    const loss = curve && common !== null ? number(valueAt(curve, common), 4) : UNKNOWN;
    return [name, ...cellsOf(run.value, curve?.x.at(-1) ?? null, loss)];
  });
  return (
    <section class="panel stack">
      <h2>Figures</h2>
      <Table id="figures" columns={columns} rows={rows} />
      <p class="quiet small">Step time and tokens/s are means over steps after the warm-up, without saves and evaluations; productive is a share of device-time.</p>
    </section>
  );
}

function cellsOf(run: Compared["run"]["value"], lastStep: number | null, loss: string): ComponentChildren[] {
  if (!run) return ["", "", "", "", "", loss, "", "", "", ""];
  const figures = figuresOf(run);
  return [
    <State word={run.state} />,
    number(run.world_size || null, 0),
    number(lastStep === null ? null : lastStep + 1, 0),
    seconds(figures.stepSeconds),
    short(figures.tokensPerSecond),
    loss,
    percent(figures.goodput),
    number(run.open_incidents === null ? null : figures.incidents, 0),
    deviceTime(figures.deviceSeconds),
    run.cost ? money(run.cost.money, run.cost.currency) : "no rate",
  ];
}

/** What is not the same in all runs. */
export function Changes({ all }: { all: readonly Compared[] }) {
  const known = all.filter(({ run }) => run.value !== null);
  const runs = known.flatMap(({ run }) => (run.value ? [run.value] : []));
  if (runs.length < 2) return null;
  const { changes, equal } = changesOf(runs);
  const rows = changes.map(({ name, values }) => [
    <span class="mono">{name}</span>,
    ...values.map((value) => (value === null ? <span class="quiet">not reported</span> : value)),
  ]);
  return (
    <section class="panel stack">
      <h2>What differs in configuration</h2>
      <Table
        id="changes"
        columns={["Setting", ...known.map(({ style }) => style.label)]}
        rows={rows}
        empty={equal > 1 ? "Nothing that these runs report." : "These runs report nothing of their configuration: pass it to the hooks."}
      />
      {equal > 0 && <p class="quiet small">{number(equal, 0)} more are equal.</p>}
    </section>
  );
}
