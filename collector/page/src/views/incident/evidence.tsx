/** What shows an incident: numbers beside what they are compared with, then facts in words. */
import type { Schemas } from "../../api/types";
import { Comparisons } from "../../charts/bars";
import { comparisonsOf } from "../../charts/comparisons";
import { measure } from "../../words/quantities";

type Evidence = Schemas["Evidence"];
const hasReference = (row: Evidence): boolean => typeof row.reference === "number" && row.value !== null;

/** The rows with a reference as bars, the others as text. */
export function EvidenceOf({ rows }: { rows: readonly Evidence[] }) {
  if (!rows.length) return <p class="quiet">No evidence was recorded.</p>;
  const others = rows.filter((row) => !hasReference(row));
  return (
    <div class="stack">
      <Comparisons items={comparisonsOf(rows.filter(hasReference))} />
      {others.length > 0 && (
        <dl class="pairs">
          {others.map((row) => (
            <div key={row.name}>
              <dt>{row.name}</dt>
              <dd>
                {row.text || measure(row.value, row.unit)} <span class="quiet">{row.against}</span>
              </dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}
