/** Words for an answer that is old: what it says is not known to hold now. */

import type { Schemas } from "../../api/types";

/** Returns the reason and the state before; empty for a fresh answer. */
export const staleWords = (stale: Schemas["Stale"] | undefined): string =>
  stale ? stale.reason + (stale.state ? `; it was ${stale.state} then` : "") : "";
