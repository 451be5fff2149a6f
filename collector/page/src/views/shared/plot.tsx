/** Tracks on an axis of their own, which zooms as a whole. */
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Axis } from "../../charts/axis";
import type { Mark } from "../../charts/frame";
import type { AnyAxis, Span } from "../../charts/range";
import type { TrackProps } from "../../charts/track";
import { TableBehind } from "./behind";
import { Chart } from "./chart";
import { trackTable } from "./chart_table";
import { useWidth } from "./width";

/** A track without what all tracks of a plot share. */
export type Part = Pick<TrackProps, "title" | "data" | "format" | "height" | "fixed">;

interface PlotProps {
  id: string;
  /** What the tracks show something of. */
  about: string;
  parts: readonly Part[];
  kind: AnyAxis;
  whole: Span;
  marks?: readonly Mark[];
}

const NO_MARKS: readonly Mark[] = [];

/** The plot; a drag zooms, a double click or the button shows all again. */
export function Plot({ id, about, parts, kind, whole, marks = NO_MARKS }: PlotProps) {
  const zoom = useSignal<Span | null>(null);
  const pointer = useSignal<number | null>(null);
  const holder = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  const span = zoom.value ?? whole;
  return (
    <div ref={holder} id={id}>
      {parts.map((part) => (
        <Chart
          key={part.title}
          {...part}
          kind={kind}
          about={about}
          span={span}
          marks={marks}
          pointer={pointer}
          onZoom={(next) => (zoom.value = next)}
        />
      ))}
      <Axis kind={kind} span={span} marks={marks} width={width} />
      {zoom.value && (
        <button type="button" class="chip" onClick={() => (zoom.value = null)}>
          Whole range
        </button>
      )}
      <TableBehind title={parts.length > 1 ? "Table of these curves" : "Table of this curve"} table={() => trackTable(parts, kind, span)} />
    </div>
  );
}
