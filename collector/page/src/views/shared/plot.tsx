/** Tracks on an axis of their own, which zooms as a whole. */
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Axis } from "../../charts/axis";
import type { Mark } from "../../charts/frame";
import type { AnyAxis, Span } from "../../charts/range";
import { Track, type TrackProps } from "../../charts/track";
import { useWidth } from "./width";

/** A track without what all tracks of a plot share. */
export type Part = Pick<TrackProps, "title" | "data" | "format" | "height" | "fixed">;

interface PlotProps {
  id: string;
  parts: readonly Part[];
  kind: AnyAxis;
  whole: Span;
  marks?: readonly Mark[];
}

const NO_MARKS: readonly Mark[] = [];

/** The plot; a drag zooms, a double click or the button shows all again. */
export function Plot({ id, parts, kind, whole, marks = NO_MARKS }: PlotProps) {
  const zoom = useSignal<Span | null>(null);
  const pointer = useSignal<number | null>(null);
  const holder = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  const span = zoom.value ?? whole;
  return (
    <div ref={holder} id={id}>
      {parts.map((part) => (
        <Track key={part.title} {...part} span={span} marks={marks} pointer={pointer} onZoom={(next) => (zoom.value = next)} />
      ))}
      <Axis kind={kind} span={span} marks={marks} width={width} />
      {zoom.value && (
        <button type="button" class="chip" onClick={() => (zoom.value = null)}>
          Whole range
        </button>
      )}
    </div>
  );
}
