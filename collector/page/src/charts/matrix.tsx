/** Seconds over ranks and steps on a canvas, aligned to the tracks above it. */
import type { Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { tokenColour } from "../theme/colours";
import { colourVersion } from "../theme/theme";
import { drawMarks, LEFT, type Mark, placeOf, RIGHT } from "./frame";
import { type HeatScale, ramp, shareOf } from "./heat";
import { type Cell, columnOf, type MatrixData } from "./matrix_data";
import type { Span } from "./range";

interface MatrixProps {
  data: MatrixData;
  span: Span;
  marks: readonly Mark[];
  pointer: Signal<number | null>;
  hovered: Signal<Cell | null>;
  onZoom: (span: Span) => void;
  onCell: (cell: Cell) => void;
  label: string;
  scale: HeatScale;
}

const MOST_HEIGHT = 200;
const LEAST_ROW = 3;

/** Returns the height of all rows in CSS pixels. */
export const matrixHeight = (rows: number): number =>
  Math.max(rows * LEAST_ROW, Math.min(MOST_HEIGHT, rows * 22));

/** The matrix. A click selects a cell, a drag zooms, arrow keys move the selection. */
export function Matrix(props: MatrixProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const newest = useRef(props);
  newest.current = props;
  const { data, span, marks, hovered, scale } = props;
  const version = colourVersion.value;
  const height = matrixHeight(data.rows.length);

  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const paint = (): void => draw(element, newest.current);
    paint();
    const resized = new ResizeObserver(paint);
    resized.observe(element);
    return () => resized.disconnect();
  }, [data, span.min, span.max, marks, version, scale]);

  useEffect(() => (canvas.current ? dragging(canvas.current, newest) : undefined), []);

  return (
    <canvas
      ref={canvas}
      class="matrix"
      role="img"
      tabIndex={0}
      aria-label={props.label}
      style={{ height: `${height}px` }}
      onKeyDown={(event) => {
        const moved = movedBy(event.key, hovered.value ?? { row: 0, column: data.steps.length - 1 }, data);
        if (moved) hovered.value = moved;
        else if (event.key === "Enter" && hovered.value) props.onCell(hovered.value);
        else return;
        event.preventDefault();
      }}
    />
  );
}

function movedBy(key: string, cell: Cell, data: MatrixData): Cell | null {
  const moves: Record<string, [number, number]> = {
    ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
  };
  const move = moves[key];
  if (!move) return null;
  const limited = (value: number, most: number): number => Math.min(most - 1, Math.max(0, value));
  return {
    row: limited(cell.row + move[0], data.rows.length),
    column: limited(cell.column + move[1], data.steps.length),
  };
}

/** Follows the pointer over the canvas; returns the function that stops it. */
function dragging(element: HTMLCanvasElement, newest: { current: MatrixProps }): () => void {
  let from: number | null = null;
  const valueAt = (event: PointerEvent): number => {
    const { span } = newest.current;
    const width = element.clientWidth - LEFT - RIGHT;
    const x = event.clientX - element.getBoundingClientRect().left - LEFT;
    return span.min + (Math.min(width, Math.max(0, x)) / width) * (span.max - span.min);
  };
  const cellAt = (event: PointerEvent): Cell | null => {
    const { data } = newest.current;
    const y = event.clientY - element.getBoundingClientRect().top;
    const row = Math.floor((y / element.clientHeight) * data.rows.length);
    const column = columnOf(data, valueAt(event));
    return row >= 0 && row < data.rows.length && column >= 0 ? { row, column } : null;
  };
  const events: [string, (event: PointerEvent) => void][] = [
    ["pointerdown", (event) => { from = valueAt(event); }],
    ["pointermove", (event) => {
      newest.current.pointer.value = valueAt(event);
      newest.current.hovered.value = cellAt(event);
    }],
    ["pointerleave", () => {
      newest.current.pointer.value = null;
      newest.current.hovered.value = null;
    }],
    ["pointerup", (event) => {
      const { span, onZoom, onCell } = newest.current;
      const to = valueAt(event);
      const start = from ?? to;
      from = null;
      const cell = cellAt(event);
      if (Math.abs(to - start) > 0.01 * (span.max - span.min)) {
        onZoom({ min: Math.min(start, to), max: Math.max(start, to) });
      } else if (cell) onCell(cell);
    }],
  ];
  for (const [name, listener] of events) element.addEventListener(name, listener as EventListener);
  return () => {
    for (const [name, listener] of events) element.removeEventListener(name, listener as EventListener);
  };
}

function draw(element: HTMLCanvasElement, props: MatrixProps): void {
  const ratio = devicePixelRatio;
  const [width, height] = [Math.round(element.clientWidth * ratio), Math.round(element.clientHeight * ratio)];
  if (element.width !== width) element.width = width;
  if (element.height !== height) element.height = height;
  const context = element.getContext("2d");
  if (!context || !width || !height) return;
  context.clearRect(0, 0, width, height);
  const box = { left: LEFT * ratio, top: 0, width: width - (LEFT + RIGHT) * ratio, height };
  if (box.width < 1) return;
  hatch(context, props, box);
  cells(context, props, box);
  labels(context, props, ratio, height);
  drawMarks(context, props.marks, props.span, box, ratio);
}

type Box = { left: number; top: number; width: number; height: number };

/** Hatches the range of known steps: what no cell covers is unknown. */
function hatch(context: CanvasRenderingContext2D, { data, span }: MatrixProps, box: Box): void {
  const [first, last] = [data.edges[0], data.edges.at(-1)];
  if (first === undefined || last === undefined) return;
  const clip = (value: number): number =>
    Math.min(box.left + box.width, Math.max(box.left, placeOf(value, span, box.left, box.width)));
  const [from, to] = [clip(first), clip(last)];
  context.save();
  context.beginPath();
  context.rect(from, box.top, to - from, box.height);
  context.clip();
  context.strokeStyle = tokenColour("--hatch");
  context.lineWidth = 1;
  context.beginPath();
  for (let x = from - box.height; x < to; x += 7) {
    context.moveTo(x, box.top + box.height);
    context.lineTo(x + box.height, box.top);
  }
  context.stroke();
  context.restore();
}

/** Paints the known cells: one pixel of a small picture a row and a pixel of width, then scaled in height. */
function cells(context: CanvasRenderingContext2D, props: MatrixProps, box: Box): void {
  const { data, span, scale } = props;
  const [width, rows] = [Math.round(box.width), data.rows.length];
  if (!rows || width < 1) return;
  const picture = new ImageData(width, rows);
  const colours = ramp();
  const columns = Int32Array.from({ length: width }, (_, x) =>
    columnOf(data, span.min + ((x + 0.5) / width) * (span.max - span.min)),
  );
  data.seconds.forEach((line, row) => {
    for (let x = 0; x < width; x += 1) {
      const value = line[columns[x] ?? -1];
      if (value === null || value === undefined) continue;
      const shade = 3 * Math.round(255 * shareOf(scale, value));
      const place = 4 * (row * width + x);
      picture.data[place] = colours[shade] ?? 0;
      picture.data[place + 1] = colours[shade + 1] ?? 0;
      picture.data[place + 2] = colours[shade + 2] ?? 0;
      picture.data[place + 3] = 255;
    }
  });
  const small = new OffscreenCanvas(width, rows);
  small.getContext("2d")?.putImageData(picture, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, box.left, box.top, width, box.height);
}

const LEAST_LABEL_SPACE = 14;

function labels(context: CanvasRenderingContext2D, { data }: MatrixProps, ratio: number, height: number): void {
  const row = height / data.rows.length;
  context.fillStyle = tokenColour("--quiet");
  context.font = `${11.5 * ratio}px system-ui, sans-serif`;
  context.textAlign = "right";
  context.textBaseline = "middle";
  const half = (LEAST_LABEL_SPACE / 2) * ratio;
  let free = 0;
  data.rows.forEach(({ first, last, words }, index) => {
    const y = Math.min(height - half, Math.max(half, (index + 0.5) * row));
    if (y - half < free) return;
    free = y + half;
    const isRange = first !== last && words.startsWith("ranks ");
    context.fillText(isRange ? `${first}–${last}` : words, (LEFT - 8) * ratio, y, (LEFT - 10) * ratio);
  });
}
