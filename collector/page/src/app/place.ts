/** The address of the page: path and query, which hold the whole view, so that a link shows it again. */
import { computed, signal } from "@preact/signals";

const address = signal(location.pathname + location.search);

/** The path, without the query. */
export const path = computed(() => new URL(address.value, location.origin).pathname);

/** The query. */
export const query = computed(() => new URL(address.value, location.origin).searchParams);

/** Goes to an address of this page; with `replace`, without a new entry in the browser's history. */
export function go(to: string, replace = false): void {
  if (to === address.value) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  address.value = to;
}

/** Sets parameters of the query; null removes one. */
export function setQuery(changes: Record<string, string | null>, replace = true): void {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  go(path.value + (text ? `?${text}` : ""), replace);
}

/** Follows the browser's buttons, and links whose path a view knows, without loading the page anew. */
export function followLinks(knows: (path: string) => boolean): void {
  addEventListener("popstate", () => {
    address.value = location.pathname + location.search;
  });
  addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || !isPlainClick(event) || link.target || link.hasAttribute("download")) return;
    const to = new URL(link.href, location.href);
    if (to.origin !== location.origin || !knows(to.pathname)) return;
    if (to.hash && to.pathname === location.pathname) return;
    event.preventDefault();
    go(to.pathname + to.search);
    scrollTo(0, 0);
  });
}

function isPlainClick(event: MouseEvent): boolean {
  const modified = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
  return event.button === 0 && !modified && !event.defaultPrevented;
}

/** The path of a job's page. */
export const jobPath = (job: string): string => `/jobs/${encodeURIComponent(job)}`;

/** The path of an incident's page. */
export const incidentPath = (id: string): string => `/incidents/${encodeURIComponent(id)}`;

/** The path of a node's page. */
export const nodePath = (node: string): string => `/nodes/${encodeURIComponent(node)}`;
