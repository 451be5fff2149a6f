/** One track: lines or a stack over the shared axis, drawn by uPlot. */
import { type Signal, useSignalEffect } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { tokenColour } from "../theme/colours";
import { colourVersion } from "../theme/theme";
import { drawMarks, LEFT, type Mark, RIGHT } from "./frame";
import type { Span } from "./range";
import { aligned, type Line, nearest, type TrackData } from "./track_data";

/** A track's parts. */
export interface TrackProps {
  title: string;
  data: TrackData;
  span: Span;
  marks: readonly Mark[];
  /** The value under the pointer, in the axis' unit; shared by all tracks. */
  pointer: Signal<number | null>;
  onZoom: (span: Span | null) => void;
  format: (value: number) => string;
  height?: number;
  logarithmic?: boolean;
  fixed?: [number, number];
  /** What lies above the track. */
  children?: ComponentChildren;
}

const HEIGHT = 92;

/** A track, with its title and the values under the pointer in the corner. */
export function Track(props: TrackProps) {
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const newest = useRef(props);
  newest.current = props;
  const shape = `${props.data.lines.map((line) => line.label + line.colour + Boolean(line.low)).join()}|${props.logarithmic}|${props.data.stacked}`;

  useEffect(() => {
    const element = holder.current;
    if (!element) return;
    plot.current = new uPlot(options(newest, element.clientWidth), aligned(newest.current.data), element);
    const resized = new ResizeObserver(() =>
      plot.current?.setSize({ width: element.clientWidth, height: newest.current.height ?? HEIGHT }),
    );
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => {
    plot.current?.setData(aligned(props.data));
  }, [props.data, props.span.min, props.span.max]);

  useEffect(() => {
    plot.current?.redraw(false);
  }, [props.marks]);

  useSignalEffect(() => {
    void colourVersion.value;
    plot.current?.redraw(false);
  });

  useSignalEffect(() => {
    const u = plot.current;
    const at = props.pointer.value;
    if (!u) return;
    // Without a source event uPlot does not tell others: no circle of cursors.
    const left = at === null ? -10 : u.valToPos(at, "x");
    if (Math.abs((u.cursor.left ?? -10) - left) > 0.5) u.setCursor({ left, top: -10 }, false);
  });

  return (
    <figure class="track">
      <div ref={holder} />
      <figcaption>
        <b>{props.title}</b> {!props.data.stacked && <Values {...props} />}
      </figcaption>
      {props.children}
    </figure>
  );
}

/** The values under the pointer, or the newest. */
export function Values({ data, pointer, format }: Pick<TrackProps, "data" | "pointer" | "format">) {
  const at = pointer.value;
  const index = at === null ? data.x.length - 1 : nearest(data.x, at);
  return (
    <span class="figure-text">
      {data.lines
        .filter((line) => !line.dashed)
        .map((line) => {
          const value = line.values[index];
          const range = bandWords(line, index, format);
          return value === null || value === undefined ? null : (
            <span key={line.label} class="value">
              {data.lines.length > 1 && <i style={{ background: cssColour(line.colour) }} />}
              {data.lines.length > 1 ? `${line.label} ` : ""}
              {format(value)}
              {range && <span class="quiet"> {range}</span>}
            </span>
          );
        })}
    </span>
  );
}

const cssColour = (colour: string): string => (colour.startsWith("--") ? `var(${colour})` : colour);

function bandWords(line: Line, index: number, format: (value: number) => string): string {
  const [low, high] = [line.low?.[index], line.high?.[index]];
  if (low === null || low === undefined || high === null || high === undefined || low === high) return "";
  return `${format(low)} to ${format(high)}`;
}

function options(newest: { current: TrackProps }, width: number): uPlot.Options {
  const { data, height, logarithmic } = newest.current;
  const { series, bands } = data.stacked ? stackOf(data.lines) : linesOf(data.lines);
  return {
    width,
    height: height ?? HEIGHT,
    padding: [8, RIGHT, 4, 0],
    legend: { show: false },
    cursor: {
      y: false,
      points: { show: !data.stacked },
      drag: { x: true, y: false, setScale: false },
      bind: { dblclick: () => () => (newest.current.onZoom(null), null) },
    },
    scales: {
      x: { time: false, range: () => [newest.current.span.min, newest.current.span.max] },
      y: {
        distr: logarithmic ? 3 : 1,
        range: (_u, low, high) => newest.current.fixed ?? yRange(low, high, Boolean(logarithmic)),
      },
    },
    axes: [{ show: false }, yAxis(newest)],
    series: [{}, ...series],
    bands,
    hooks: {
      draw: [(u) => drawMarks(u.ctx, newest.current.marks, newest.current.span, u.bbox, devicePixelRatio)],
      setSelect: [(u) => zoomed(u, newest.current.onZoom)],
      setCursor: [(u) => pointed(u, newest.current.pointer)],
    },
  };
}

function yAxis(newest: { current: TrackProps }): uPlot.Axis {
  return {
    size: LEFT,
    space: 28,
    stroke: () => tokenColour("--quiet"),
    grid: { stroke: () => tokenColour("--line"), width: 1 },
    ticks: { show: false },
    font: "11.5px system-ui, sans-serif",
    values: (_u, splits) => splits.map((value) => (value === null ? null : newest.current.format(value))),
  };
}

/** A range that holds all values with some space; flat values get a band around them. */
function yRange(low: number | null, high: number | null, logarithmic: boolean): [number, number] {
  if (low === null || high === null) return [0, 1];
  if (logarithmic) return [low / 1.1, high * 1.1];
  const space = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
  return [low >= 0 && low - space < 0 ? 0 : low - space, high + space];
}

function zoomed(u: uPlot, onZoom: (span: Span) => void): void {
  if (u.select.width < 4) return;
  const min = u.posToVal(u.select.left, "x");
  const max = u.posToVal(u.select.left + u.select.width, "x");
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  onZoom({ min, max });
}

function pointed(u: uPlot, pointer: Signal<number | null>): void {
  if (!u.cursor.event) return;
  const left = u.cursor.left ?? -10;
  pointer.value = left < 0 ? null : u.posToVal(left, "x");
}

const drawn = (colour: string): (() => string) =>
  colour.startsWith("--") ? () => tokenColour(colour) : () => colour;

function linesOf(lines: readonly Line[]): { series: uPlot.Series[]; bands: uPlot.Band[] } {
  const series: uPlot.Series[] = [];
  const bands: uPlot.Band[] = [];
  for (const line of lines) {
    const points = { show: (_u: uPlot, _i: number, first: number, last: number) => last - first < 2 };
    if (line.low) {
      // Before the line: a band is painted with its first edge, over what came before.
      const edge = series.length + 1;
      const hidden = { stroke: "transparent", width: 0, points: { show: false } };
      series.push({ label: `${line.label} greatest`, ...hidden }, { label: `${line.label} least`, ...hidden });
      bands.push({ series: [edge, edge + 1], fill: () => tokenColour("--band") });
    }
    series.push({
      label: line.label,
      stroke: drawn(line.colour),
      width: line.width ?? 1.6,
      ...(line.dash?.length || line.dashed ? { dash: [...(line.dash ?? [4, 4])] } : {}),
      points,
    });
  }
  return { series, bands };
}

function stackOf(lines: readonly Line[]): { series: uPlot.Series[]; bands: uPlot.Band[] } {
  const stepped = uPlot.paths.stepped?.({ align: 1, ascDesc: true });
  const series = [...lines].reverse().map((line) => ({
    label: line.label,
    stroke: drawn(line.colour),
    fill: drawn(line.colour),
    width: 0,
    points: { show: false },
    ...(stepped ? { paths: stepped } : {}),
  }));
  return { series, bands: [] };
}
