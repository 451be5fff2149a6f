/** Types of the collector's answers. `python collector/page/hatch_build.py --lint` makes them from its own types. */
import type { components } from "./schema";

/** Answers and their parts by name, as the collector names them. */
export type Schemas = components["schemas"];
