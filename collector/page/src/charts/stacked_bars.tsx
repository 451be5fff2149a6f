/** Device-time by cause as bars of stacked parts. */
import { CAUSES } from "../theme/colours";
import { percent } from "../words/quantities";

/** A part of a bar; its name is a cause. */
export interface BarPart {
  name: string;
  /** Share of the bar's whole width, 0 to 1. */
  share: number;
}

/** One bar; its parts lie beside each other, in their order. */
export function StackedBar({ parts }: { parts: readonly BarPart[] }) {
  let left = 0;
  const placed = parts.map((part) => {
    const x = left;
    left += 100 * part.share;
    return { ...part, x };
  });
  const words = parts.map(({ name, share }) => `${name.replaceAll("-", " ")} ${percent(share, 0)}`).join(", ");
  return (
    <svg class="shares" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label={words}>
      {placed.map(({ name, share, x }) => (
        <rect key={name} x={x} width={100 * share} height="12" fill={CAUSES[name] ?? "none"}>
          <title>{`${name.replaceAll("-", " ")}: ${percent(share)}`}</title>
        </rect>
      ))}
    </svg>
  );
}
