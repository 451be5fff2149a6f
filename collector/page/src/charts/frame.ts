/** Sizes and marks that every track of a job has, so that all align to the pixel. */
import { tokenColour } from "../theme/colours";
import type { Span } from "./range";

/** Space for labels left of a plot, and beside its right end; CSS pixels. */
export const LEFT = 78;
export const RIGHT = 14;

/** A vertical line through all tracks. */
export interface Mark {
  kind: "checkpoint" | "evaluation" | "restart" | "incident";
  /** In the axis' unit. */
  x: number;
  words: string;
  /** Whether it is drawn as wrong: an incident, or a checkpoint that is damaged. */
  bad: boolean;
  id: string | null;
}

const DASHES: Record<Mark["kind"], number[]> = {
  checkpoint: [2, 3],
  evaluation: [1, 2],
  restart: [6, 3],
  incident: [],
};

/** The token of a mark's colour. */
export const markToken = (mark: Mark): string =>
  mark.bad ? "--bad" : mark.kind === "evaluation" ? "--warn" : mark.kind === "restart" ? "--unsure" : "--quiet";

/** Returns the place of a value on an axis, in pixels. */
export const placeOf = (value: number, span: Span, left: number, width: number): number =>
  left + ((value - span.min) / (span.max - span.min || 1)) * width;

/** Draws the marks over a plot; all sizes in pixels of the canvas. */
export function drawMarks(
  context: CanvasRenderingContext2D,
  marks: readonly Mark[],
  span: Span,
  box: { left: number; top: number; width: number; height: number },
  ratio: number,
): void {
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  for (const mark of marks) {
    if (mark.x < span.min || mark.x > span.max) continue;
    const x = Math.round(placeOf(mark.x, span, box.left, box.width)) + 0.5;
    context.strokeStyle = tokenColour(markToken(mark));
    context.lineWidth = (mark.kind === "incident" ? 1.5 : 1) * ratio;
    context.setLineDash(DASHES[mark.kind].map((length) => length * ratio));
    context.beginPath();
    context.moveTo(x, box.top);
    context.lineTo(x, box.top + box.height);
    context.stroke();
  }
  context.restore();
}
