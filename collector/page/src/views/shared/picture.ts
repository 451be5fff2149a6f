/** Charts as a PNG: what a run ends as when it is posted. */
import { tokenColour } from "../../theme/colours";

const HEADER = 64;
const MARGIN = 16;
const LINE = 18;
const SWATCH = 9;
/** A swatch and the space behind it. */
const SWATCH_SPACE = 13;
const FONT = "system-ui, sans-serif";

/** What is drawn: parts of the page below one another, under two lines. */
export interface Picture {
  /** The file's name, without its ending. */
  file: string;
  heading: string;
  sentence: string;
  parts: readonly Element[];
  /** Values that are written above the parts; without them each stays in its chart's corner. */
  keys?: readonly HTMLElement[];
}

/** Saves a picture as a file. */
export async function savePicture(picture: Picture): Promise<void> {
  const blob = await blobOf(picture);
  if (!blob) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${picture.file.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.png`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function blobOf({ heading, sentence, parts, keys }: Picture): Promise<Blob | null> {
  const boxes = parts.map((part) => part.getBoundingClientRect());
  const width = Math.max(...boxes.map((box) => box.width));
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  if (!context || !boxes.length) return null;
  const flowed = keys ? flow(context, keys, width) : [];
  const header = HEADER + LINE * (flowed.at(-1)?.line ?? 0);
  const ratio = devicePixelRatio;
  canvas.width = Math.round((width + 2 * MARGIN) * ratio);
  canvas.height = Math.round((header + MARGIN + boxes.reduce((sum, box) => sum + box.height, 0)) * ratio);
  context.scale(ratio, ratio);
  context.fillStyle = tokenColour("--panel");
  context.fillRect(0, 0, canvas.width, canvas.height);
  write(context, heading, MARGIN, 26, `600 13px ${FONT}`, tokenColour("--quiet"));
  write(context, sentence, MARGIN, 48, `600 16px ${FONT}`, tokenColour("--ink"));
  for (const { key, x, line } of flowed) writeKey(context, key, MARGIN + x, 48 + LINE * line, "12px");
  let top = header;
  parts.forEach((part, index) => {
    const box = boxes[index];
    if (!box) return;
    drawPart(context, part, MARGIN - box.left, top - box.top, keys !== undefined);
    top += box.height;
  });
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** Draws a part's canvases and words; `left` and `top` lead from the page to the picture. */
function drawPart(context: CanvasRenderingContext2D, part: Element, left: number, top: number, isKeyed: boolean): void {
  for (const canvas of part.querySelectorAll("canvas")) {
    const place = canvas.getBoundingClientRect();
    context.drawImage(canvas, place.left + left, place.top + top, place.width, place.height);
  }
  for (const words of part.querySelectorAll<HTMLElement>("figcaption b, .value, .ticks span, .sign, .unit")) {
    const caption = words.closest("figcaption");
    const place = words.getBoundingClientRect();
    // A corner that is too small hides the last values.
    if (caption && (isKeyed || place.right > caption.getBoundingClientRect().right + 1)) continue;
    const bottom = (caption ?? words).getBoundingClientRect().bottom;
    writeKey(context, words, place.left + left, bottom + top - 4, getComputedStyle(words).fontSize);
  }
}

/** Returns the places of values in lines of a width; the first line is 1. */
function flow(context: CanvasRenderingContext2D, keys: readonly HTMLElement[], width: number): { key: HTMLElement; x: number; line: number }[] {
  context.font = `12px ${FONT}`;
  let [x, line] = [0, 1];
  return keys.map((key) => {
    const length = SWATCH_SPACE + context.measureText(key.innerText).width;
    if (x > 0 && x + length > width) [x, line] = [0, line + 1];
    const place = { key, x, line };
    x += length + SWATCH_SPACE;
    return place;
  });
}

function writeKey(context: CanvasRenderingContext2D, key: HTMLElement, x: number, y: number, size: string): void {
  const swatch = key.querySelector("i");
  if (swatch) {
    context.fillStyle = getComputedStyle(swatch).backgroundColor;
    context.fillRect(x, y - SWATCH, SWATCH, SWATCH);
  }
  write(context, key.innerText, x + (swatch ? SWATCH_SPACE : 0), y, `${size} ${FONT}`, getComputedStyle(key).color);
}

function write(context: CanvasRenderingContext2D, text: string, x: number, y: number, font: string, colour: string): void {
  context.font = font;
  context.fillStyle = colour;
  context.fillText(text, x, y);
}
