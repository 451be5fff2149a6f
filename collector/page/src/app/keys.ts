/** Keys: "/" searches, "f" filters a list, "g" and a letter goes to a section, "?" shows the keys, Escape closes. */
import { signal } from "@preact/signals";
import { go } from "./place";
import { knowsPath, SECTIONS } from "./views";

/** Whether the list of keys is shown. */
export const keysShown = signal(false);

/** Keys that lead to a field. */
const FIELDS: Readonly<Record<string, string>> = { "/": ".search input", f: ".filter" };

const SECOND_KEY_WITHIN_MS = 1_500;
let goSince = 0;

/** Follows the keyboard. */
export function followKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") keysShown.value = false;
    else if (!isTyping(event.target)) pressed(event);
  });
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("input, select, textarea, [contenteditable]") !== null;
}

function pressed(event: KeyboardEvent): void {
  const section = SECTIONS.find(([, , key]) => key === event.key);
  if (section && Date.now() - goSince < SECOND_KEY_WITHIN_MS) {
    goSince = 0;
    visit(section[0]);
  } else if (event.key === "g") goSince = Date.now();
  else if (event.key === "?") keysShown.value = !keysShown.value;
  else if (FIELDS[event.key]) {
    event.preventDefault();
    document.querySelector<HTMLInputElement>(FIELDS[event.key] ?? "")?.focus();
  } else return;
}

/** Goes to a path of this page, or to one that the server has besides. */
export function visit(to: string): void {
  if (knowsPath(to)) go(to);
  else location.assign(to);
}
