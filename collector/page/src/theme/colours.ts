/** Colours with one meaning everywhere: where device-time goes, and the phases of a step. */
import colours from "../../../stepwatch/collector/colours.json";

/** Colours by cause of device-time, in the order in which they are stacked. */
export const CAUSES: Readonly<Record<string, string>> = colours.causes;
/** Colours by phase of a step, in its order, then waits. */
export const PHASES: Readonly<Record<string, string>> = colours.phases;

/** Sets `--cause-NAME` and `--phase-NAME` for the style sheet. */
export function setColours(root: HTMLElement): void {
  for (const [name, colour] of Object.entries(CAUSES)) root.style.setProperty(`--cause-${name}`, colour);
  for (const [name, colour] of Object.entries(PHASES)) root.style.setProperty(`--phase-${name}`, colour);
}

let probe: HTMLElement | null = null;

/** Returns a token's colour in the current theme, for a canvas: "--ink" gives "rgb(20, 24, 29)". */
export function tokenColour(token: string): string {
  if (!probe) {
    probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${token})`;
  return getComputedStyle(probe).color;
}

/** Returns the red, green and blue of a colour that `tokenColour` returned. */
export function channels(colour: string): [number, number, number] {
  const [red = 0, green = 0, blue = 0] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  // A colour of `color-mix` or `light-dark` may come as fractions.
  return colour.startsWith("color(") ? [255 * red, 255 * green, 255 * blue] : [red, green, blue];
}
