/** Applies events to the list of jobs: an event has the fields that changed. */
import type { ServerEvent } from "./events";
import type { Schemas } from "./types";

type Line = Schemas["JobLineAnswer"];

/** Returns the list after some events; a job that is new comes first, one that is gone leaves. */
export function merged(lines: readonly Line[], events: readonly ServerEvent[]): Line[] {
  const byName = new Map(lines.map((line) => [line.job, line]));
  const fresh = new Set<string>();
  for (const { event, data } of events) {
    const change = JSON.parse(data) as Partial<Line> & { job: string };
    const before = byName.get(change.job);
    if (event === "gone") byName.delete(change.job);
    else if (event === "job" && before) {
      // An event that was under way while the list was asked for may be older than the list.
      if ((change.as_of ?? 0) >= (before.as_of ?? 0)) byName.set(change.job, withChange(before, change));
    } else if (event === "job" && "world_size" in change) {
      byName.set(change.job, change as Line);
      fresh.add(change.job);
    }
  }
  const all = [...byName.values()];
  return [...all.filter((line) => fresh.has(line.job)), ...all.filter((line) => !fresh.has(line.job))];
}

/** Returns a new list, with the lines of the list before it that events made newer. */
export function renewed(before: readonly Line[], answer: readonly Line[]): Line[] {
  const byName = new Map(before.map((line) => [line.job, line]));
  return answer.map((line) => {
    const known = byName.get(line.job);
    return known && (known.as_of ?? 0) > (line.as_of ?? 0) ? known : line;
  });
}

/** A field that is no more comes as null; of those only `stale` may be absent. */
function withChange(before: Line, change: Partial<Line>): Line {
  const { stale, ...line } = { ...before, ...change };
  return stale ? { ...line, stale } : line;
}
