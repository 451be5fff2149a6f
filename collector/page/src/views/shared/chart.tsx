/** A track with a menu that copies it. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { AnyAxis } from "../../charts/range";
import { Track, type TrackProps } from "../../charts/track";
import { NO_COPYING } from "./behind";
import { markdownOf, trackTable } from "./chart_table";
import { CopyButton } from "./command";
import { savePicture } from "./picture";

interface ChartProps extends Omit<TrackProps, "children"> {
  kind: AnyAxis;
  /** What the track shows something of: it heads the picture and names its file. */
  about: string;
}

/** The track; its menu copies the values in view as Markdown, or saves the track and its axis as a PNG. */
export function Chart({ kind, about, ...track }: ChartProps) {
  const table = (): string => markdownOf(trackTable([track], kind, track.span));
  return (
    <Track {...track}>
      <ChartMenu title={track.title} about={about} table={table} />
    </Track>
  );
}

function ChartMenu({ title, about, table }: { title: string; about: string; table: () => string }) {
  const menu = useRef<HTMLDetailsElement>(null);
  const isOpen = useSignal(false);
  const close = (): void => {
    if (menu.current) menu.current.open = false;
  };
  useEffect(() => {
    if (!isOpen.value) return;
    const pressedOutside = (event: PointerEvent): void => {
      if (event.target instanceof Node && !menu.current?.contains(event.target)) close();
    };
    document.addEventListener("pointerdown", pressedOutside);
    return () => document.removeEventListener("pointerdown", pressedOutside);
  }, [isOpen.value]);
  return (
    <details
      ref={menu}
      class="menu"
      name="chart-menu"
      onToggle={(event) => (isOpen.value = event.currentTarget.open)}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        close();
        menu.current?.querySelector("summary")?.focus();
      }}
    >
      <summary aria-label={`Copy ${title}`} title={`Copy ${title}`}>
        ⋯
      </summary>
      <div class="panel stack">
        <CopyButton label="Copy table" refused={NO_COPYING} text={table} />
        <button
          type="button"
          class="chip"
          onClick={() => {
            close();
            void saveChart(menu.current, title, about);
          }}
        >
          Download picture
        </button>
      </div>
    </details>
  );
}

async function saveChart(menu: Element | null, title: string, about: string): Promise<void> {
  const figure = menu?.closest("figure");
  if (!figure) return;
  const legend = figure.nextElementSibling;
  const axis = figure.parentElement?.querySelector(":scope > .axis");
  const parts = [figure, ...(legend?.matches(".legend") ? [legend] : []), ...(axis ? [axis] : [])];
  await savePicture({ file: `${about}-${title}`, heading: about, sentence: title, parts, keys: [...figure.querySelectorAll<HTMLElement>(".value")] });
}
