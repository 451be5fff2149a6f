/** The views by path. */
import type { ComponentType } from "preact";
import { Compare } from "../views/compare/compare";
import { Fleet } from "../views/fleet/fleet";
import { IncidentView } from "../views/incident/incident";
import { Job } from "../views/job/job";
import { NodeView } from "../views/nodes/node";
import { NodesView } from "../views/nodes/nodes";
import { Reports } from "../views/reports/reports";
import { Runbook } from "../views/runbook/runbook";
import { Self } from "../views/self/self";
import { Slos } from "../views/slos/slos";
import { Sweeps } from "../views/sweeps/sweeps";

/** What a view gets: the named part of its path, decoded. */
export interface ViewProps {
  name: string;
}

/** A view: the pattern of its path, and the entry of the navigation that it belongs to. */
export interface ViewEntry {
  pattern: RegExp;
  section: string;
  view: ComponentType<ViewProps>;
}

const VIEWS: readonly ViewEntry[] = [
  { pattern: /^\/$/, section: "/", view: Fleet },
  { pattern: /^\/jobs\/([^/]+)$/, section: "/", view: Job },
  { pattern: /^\/incidents\/([^/]+)$/, section: "/", view: IncidentView },
  { pattern: /^\/runbooks\/([^/]+)$/, section: "/", view: Runbook },
  { pattern: /^\/nodes$/, section: "/nodes", view: NodesView },
  { pattern: /^\/nodes\/([^/]+)$/, section: "/nodes", view: NodeView },
  { pattern: /^\/slos$/, section: "/slos", view: Slos },
  { pattern: /^\/compare$/, section: "/compare", view: Compare },
  { pattern: /^\/self$/, section: "/self", view: Self },
  { pattern: /^\/sweeps$/, section: "/sweeps", view: Sweeps },
  { pattern: /^\/reports$/, section: "/reports", view: Reports },
];

/** Entries of the navigation: path, name, and the key after "g". */
export const SECTIONS: readonly (readonly [string, string, string])[] = [
  ["/", "Fleet", "f"],
  ["/nodes", "Nodes", "n"],
  ["/slos", "SLOs", "s"],
  ["/compare", "Compare", "c"],
  ["/sweeps", "Sweeps", "w"],
  ["/reports", "Reports", "r"],
  ["/self", "Collector", "m"],
];

/** Returns a path's view, and the name in the path. */
export function viewOf(path: string): { entry: ViewEntry; name: string } | null {
  for (const entry of VIEWS) {
    const match = entry.pattern.exec(path);
    if (match) return { entry, name: decoded(match[1] ?? "") };
  }
  return null;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns whether a view has this path; the server has pages besides. */
export const knowsPath = (path: string): boolean => viewOf(path) !== null;
