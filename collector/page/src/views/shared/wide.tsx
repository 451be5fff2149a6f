/** What may be wider than a phone: it scrolls by itself, also from the keyboard. */
import type { ComponentChildren } from "preact";

/** A part of a page that scrolls sideways; `label` names it for readers who do not see it. */
export function Wide({ label, panel, children }: { label: string; panel?: boolean; children: ComponentChildren }) {
  return (
    <div class={panel ? "wide panel" : "wide"} role="group" aria-label={label} tabIndex={0}>
      {children}
    </div>
  );
}
