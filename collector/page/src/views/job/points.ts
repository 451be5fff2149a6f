/** Points of the standard metrics that came with live events, since the curves were asked for. */
import { type ReadonlySignal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { listen } from "../../api/live";
import type { Schemas } from "../../api/types";
import { withPoints } from "./tracks";

type Points = Schemas["LiveEvent"]["points"];

/** The points by metric, the attempt that they are of, and the newest facts; null before an event. */
export interface LivePoints {
  attempt: number;
  points: Points;
  facts: Pick<Schemas["LiveEvent"], "step" | "state" | "open_incidents" | "as_of"> | null;
}

const MOST_POINTS = 2_000;

/** Returns the live points of a job; another attempt begins anew. */
export function useLivePoints(job: string): ReadonlySignal<LivePoints> {
  const live = useSignal<LivePoints>({ attempt: -1, points: {}, facts: null });
  useEffect(
    () =>
      listen(`job:${job}`, (event) => {
        if (event?.event !== "live") return;
        const document = JSON.parse(event.data) as Schemas["LiveEvent"];
        const attempt = document.attempt ?? -1;
        const before = live.peek().attempt === attempt ? live.peek().points : {};
        const { step, state, open_incidents, as_of } = document;
        const points = { ...before, ...added(before, document.points) };
        live.value = { attempt, points, facts: { step, state, open_incidents, as_of } };
      }),
    [job],
  );
  return live;
}

function added(before: Points, more: Points): Points {
  return Object.fromEntries(
    Object.entries(more).map(([name, points]) => {
      const first = points[0]?.[0] ?? 0;
      const kept = (before[name] ?? []).filter(([step]) => step < first);
      return [name, [...kept, ...points].slice(-MOST_POINTS)];
    }),
  );
}

/** Returns the curves with the live points behind them, where both have a point for each step. */
export function withLive(answer: Schemas["SeriesAnswer"], { attempt, points }: LivePoints): Schemas["Series"][] {
  if (answer.resolution !== "step" || (attempt >= 0 && attempt < answer.attempt)) return answer.series;
  return answer.series.map((series) => {
    const newer = series.evaluation ? [] : (points[series.name] ?? []);
    const last = series.step.at(-1) ?? -1;
    const fitting = attempt === answer.attempt ? newer.filter(([step]) => step >= last) : newer;
    return withPoints(series, fitting, attempt);
  });
}

/** Returns a job with the step and the loss that came with live events. */
export function withFacts(job: Schemas["JobAnswer"], { attempt, points, facts }: LivePoints): Schemas["JobAnswer"] {
  if (!facts || attempt !== job.attempt || (facts.as_of ?? 0) < (job.as_of ?? 0)) return job;
  const loss = points.loss?.at(-1)?.[2] ?? job.loss_last;
  return { ...job, step: facts.step ?? job.step, loss_last: loss, as_of: facts.as_of };
}
