/** A moment in the reader's time zone, with UTC in the hover text. */
import { clock, utc } from "../../words/moments";

/** Shows Unix seconds. */
export function Moment({ at }: { at: number | null | undefined }) {
  return <time title={utc(at)}>{clock(at)}</time>;
}
