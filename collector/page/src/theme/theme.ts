/** The theme: the system's, or the one that the reader chose. */
import { signal } from "@preact/signals";

const KEY = "stepwatch-theme";
const CHOICES = ["system", "light", "dark"] as const;
type Choice = (typeof CHOICES)[number];

const isChoice = (text: string | null): text is Choice => CHOICES.some((choice) => choice === text);
const before = localStorage.getItem(KEY);

/** The reader's choice. */
export const theme = signal<Choice>(isChoice(before) ? before : "system");

/** Counts changes of colours: a canvas that reads it is drawn again. */
export const colourVersion = signal(0);

theme.subscribe((choice) => {
  document.documentElement.dataset.theme = choice;
  localStorage.setItem(KEY, choice);
  colourVersion.value = colourVersion.peek() + 1;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  colourVersion.value += 1;
});

/** Takes the next choice. */
export function nextTheme(): void {
  theme.value = CHOICES[(CHOICES.indexOf(theme.value) + 1) % CHOICES.length] ?? "system";
}
