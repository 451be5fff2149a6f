/** The table behind the curves, for those who do not see them. */
import { useSignal } from "@preact/signals";
import type { Schemas } from "../../api/types";
import { formatOf } from "../../words/quantities";
import { Moment } from "../shared/moment";
import { labelOf } from "./tracks";
import { Wide } from "../shared/wide";

const MOST_ROWS = 200;

/** The newest values of each curve, newest first; opened on demand. */
export function BoardTable({ curves }: { curves: readonly Schemas["Series"][] }) {
  const isOpen = useSignal(false);
  return (
    <details class="small" onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
      <summary class="quiet">Table of these curves</summary>
      {isOpen.value && <Rows curves={curves} />}
    </details>
  );
}

function Rows({ curves }: { curves: readonly Schemas["Series"][] }) {
  const steps = [...new Set(curves.flatMap((series) => series.step))].sort((one, other) => other - one);
  const columns = curves.map((series) => ({
    series,
    index: new Map(series.step.map((step, position) => [step, position])),
    format: formatOf(series.unit),
  }));
  const momentOfStep = (step: number): number | null => {
    for (const { series, index } of columns) {
      const at = series.at[index.get(step) ?? -1];
      if (at !== undefined) return at;
    }
    return null;
  };
  return (
    <Wide label="Table of the curves' values">
      <table>
        <thead>
          <tr>
            <th>Step</th>
            <th>Time</th>
            {curves.map((series) => (
              <th key={labelOf(series)} class="amount">
                {labelOf(series)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {steps.slice(0, MOST_ROWS).map((step) => (
            <tr key={step}>
              <td>{step}</td>
              <td>
                <Moment at={momentOfStep(step)} />
              </td>
              {columns.map(({ series, index, format }) => {
                const position = index.get(step);
                const value = position === undefined ? undefined : series.mean[position];
                return (
                  <td key={labelOf(series)} class="amount">
                    {value === undefined ? "" : value === null ? "not finite" : format(value)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
      {steps.length > MOST_ROWS && <p class="quiet">The newest {MOST_ROWS} of {steps.length} steps.</p>}
    </Wide>
  );
}
