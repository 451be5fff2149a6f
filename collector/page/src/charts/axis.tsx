/** The labels of the shared axis, and the signs of the marks below it. */
import { incidentPath } from "../app/place";
import { LEFT, type Mark, RIGHT } from "./frame";
import { labels } from "./axis_labels";
import type { AnyAxis, Span } from "./range";

const SIGNS: Record<Mark["kind"], string> = { checkpoint: "✓", evaluation: "E", restart: "↻", incident: "▲" };
const LEAST_SPACE = 15;
const UNITS: Record<AnyAxis, string> = { step: "step", time: "time", since: "elapsed" };

interface AxisProps {
  kind: AnyAxis;
  span: Span;
  marks: readonly Mark[];
  width: number;
}

/** The axis. */
export function Axis({ kind, span, marks, width }: AxisProps) {
  const plot = Math.max(1, width - LEFT - RIGHT);
  const place = (value: number): number => LEFT + ((value - span.min) / (span.max - span.min || 1)) * plot;
  return (
    <div class="axis">
      <div class="signs">
        {separate(marks, place, span).map(({ mark, x, count }) => (
          <Sign key={mark.kind + mark.x} mark={mark} x={x} count={count} />
        ))}
      </div>
      <div class="ticks" aria-hidden="true">
        {labels(kind, span, plot).map(({ at, words }) => (
          <span key={at} style={{ left: `${place(at)}px` }}>
            {words}
          </span>
        ))}
      </div>
      <p class="unit quiet small">{UNITS[kind]}</p>
    </div>
  );
}

function Sign({ mark, x, count }: { mark: Mark; x: number; count: number }) {
  const words = mark.words + (count > 1 ? `; ${count - 1} more here` : "");
  const sign = mark.bad && mark.kind === "checkpoint" ? "✗" : SIGNS[mark.kind];
  const shape = { left: `${x}px` };
  const kind = `sign ${mark.bad ? "bad" : mark.kind}`;
  return mark.id && mark.kind === "incident" ? (
    <a class={kind} style={shape} href={incidentPath(mark.id)} title={words} aria-label={words}>
      {sign}
    </a>
  ) : (
    <span class={kind} style={shape} title={words} role="img" aria-label={words}>
      {sign}
    </span>
  );
}

interface Placed {
  mark: Mark;
  x: number;
  count: number;
}

/** Returns the marks that fit beside each other; an incident hides others, and a sign counts those. */
export function separate(marks: readonly Mark[], place: (value: number) => number, span: Span): Placed[] {
  const rank = (mark: Mark): number => (mark.kind === "incident" ? 0 : mark.bad ? 1 : mark.kind === "restart" ? 2 : 3);
  const placed: Placed[] = [];
  for (const mark of [...marks].sort((one, other) => rank(one) - rank(other))) {
    if (mark.x < span.min || mark.x > span.max) continue;
    const x = place(mark.x);
    const near = placed.find((other) => Math.abs(other.x - x) < LEAST_SPACE);
    if (near) near.count += 1;
    else placed.push({ mark, x, count: 1 });
  }
  return placed;
}
