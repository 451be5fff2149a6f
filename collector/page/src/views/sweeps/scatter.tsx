/** A setting of trials against the best value of a metric. */
import { useRef } from "preact/hooks";
import { go, jobPath } from "../../app/place";
import { number, short } from "../../words/quantities";
import { useWidth } from "../shared/width";
import { type Dot, scaleOf } from "./trials";

const HEIGHT = 260;
const LEFT = 62;
const BELOW = 36;
const SPACE = 10;

interface ScatterProps {
  dots: readonly Dot[];
  setting: string;
  metric: string;
  best: string | null;
  format: (value: number) => string;
}

/** Settings as people write them: 0.0003 and 3e-7, not 0.00 and 0. */
const settingWords = (value: number): string => (value !== 0 && Math.abs(value) < 1e-3 ? Number(value.toPrecision(4)).toExponential() : short(value));

/** The scatter; a click on a dot opens the trial, which the table has, too. */
export function Scatter({ dots, setting, metric, best, format }: ScatterProps) {
  const holder = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  const [wide, high] = [width - LEFT - SPACE, HEIGHT - BELOW - SPACE];
  const across = scaleOf(dots.map(({ x }) => x), Math.max(2, Math.floor(wide / 90)));
  const up = scaleOf(dots.map(({ y }) => y), 6);
  const left = (x: number): number => LEFT + across.place(x) * wide;
  const top = (y: number): number => SPACE + (1 - up.place(y)) * high;
  return (
    <div ref={holder} id="scatter">
      <svg class="scatter" width={width} height={HEIGHT} role="img" aria-label={`${metric} by ${setting}: ${number(dots.length, 0)} trials`}>
        {up.ticks.map((value) => (
          <g key={value}>
            <line class="grid" x1={LEFT} x2={width - SPACE} y1={top(value)} y2={top(value)} />
            <text x={LEFT - 6} y={top(value) + 4} text-anchor="end">
              {format(value)}
            </text>
          </g>
        ))}
        {across.ticks.map((value) => (
          <text key={value} x={left(value)} y={HEIGHT - BELOW + 16} text-anchor="middle">
            {settingWords(value)}
          </text>
        ))}
        <text x={width - SPACE} y={HEIGHT - 4} text-anchor="end">
          {setting}
        </text>
        {dots.map(({ trial, x, y }) => (
          <circle
            key={trial.job}
            class={`dot${trial.job === best ? " best" : ""}${trial.state === "finished" ? "" : " hollow"}`}
            cx={left(x)}
            cy={top(y)}
            r={trial.job === best ? 7 : 4}
            onClick={() => go(jobPath(trial.job))}
          >
            <title>{`${trial.job}: ${setting} ${trial.settings[setting] ?? ""}, ${metric} ${format(y)}, ${trial.state}`}</title>
          </circle>
        ))}
      </svg>
    </div>
  );
}
