/** The board as a PNG: what a run ends as when it is posted. */
import { tokenColour } from "../../theme/colours";

const HEADER = 64;
const MARGIN = 16;

/** Saves the board's canvases, one below the other as on the page, under the verdict. */
export async function savePicture(job: string, sentence: string): Promise<void> {
  const blob = await pictureOf(job, sentence);
  if (!blob) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${job}.png`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function pictureOf(job: string, sentence: string): Promise<Blob | null> {
  const board = document.querySelector<HTMLElement>(".board");
  if (!board) return null;
  const ratio = devicePixelRatio;
  const box = board.getBoundingClientRect();
  const canvas = document.createElement("canvas");
  canvas.width = Math.round((box.width + 2 * MARGIN) * ratio);
  canvas.height = Math.round((box.height + HEADER + MARGIN) * ratio);
  const context = canvas.getContext("2d");
  if (!context) return null;
  context.scale(ratio, ratio);
  context.fillStyle = tokenColour("--panel");
  context.fillRect(0, 0, canvas.width, canvas.height);
  write(context, job, MARGIN, 26, "600 13px system-ui, sans-serif", "--quiet");
  write(context, sentence, MARGIN, 48, "600 16px system-ui, sans-serif", "--ink");
  const left = MARGIN - box.left;
  const top = HEADER - box.top;
  for (const part of board.querySelectorAll("canvas")) {
    const place = part.getBoundingClientRect();
    context.drawImage(part, place.left + left, place.top + top, place.width, place.height);
  }
  for (const part of board.querySelectorAll<HTMLElement>("figcaption, .ticks span, .sign, .unit, .legend .key")) {
    const place = part.getBoundingClientRect();
    const size = getComputedStyle(part).fontSize;
    const swatch = part.querySelector("i");
    if (swatch && part.classList.contains("key")) {
      context.fillStyle = getComputedStyle(swatch).backgroundColor;
      context.fillRect(place.left + left, place.top + top + 4, 9, 9);
    }
    const shift = swatch && part.classList.contains("key") ? 13 : 0;
    write(context, part.innerText, place.left + left + shift, place.bottom + top - 4, `${size} system-ui, sans-serif`, "--quiet");
  }
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function write(context: CanvasRenderingContext2D, text: string, x: number, y: number, font: string, token: string): void {
  context.font = font;
  context.fillStyle = tokenColour(token);
  context.fillText(text, x, y);
}
