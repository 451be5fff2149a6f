/** Figures that people say aloud, each with what it is. */
import { UNKNOWN } from "../../words/quantities";

interface FigureListProps {
  id?: string;
  /** A value, and its words. */
  figures: readonly (readonly [string, string])[];
  /** The first figure is the one that the view is about. */
  isFirstLarge?: boolean;
}

/** The figures in a row; an unknown one stands back. */
export function FigureList({ id, figures, isFirstLarge }: FigureListProps) {
  return (
    <dl class={isFirstLarge ? "figures first" : "figures"} id={id}>
      {figures.map(([value, words]) => (
        <div key={words}>
          <dd class={value === UNKNOWN ? "quiet" : undefined}>{value}</dd>
          <dt>{words}</dt>
        </div>
      ))}
    </dl>
  );
}
