/** Nodes as rows of a table. */
import type { Schemas } from "../../api/types";
import { nodePath } from "../../app/place";
import { Moment } from "../shared/moment";
import { State } from "../shared/state";
import { Wide } from "../shared/wide";

type Line = Schemas["NodeLine"];
const HEADINGS = ["Node", "Health", "Why", "What to do", "Last report"] as const;
const COUNTS = ["Faults 7 d", "Faults 30 d", "Jobs 30 d"] as const;

/** What to do in words: nothing is a dash. */
export const actionWords = (action: Line["action"]): string => (action === "none" ? "-" : action.replaceAll("-", " "));

/** A table of nodes. */
export function NodeRows({ nodes }: { nodes: readonly Line[] }) {
  return (
    <Wide panel label="Table of nodes">
      <table id="nodes">
        <thead>
          <tr>
            {HEADINGS.map((words) => (
              <th key={words}>{words}</th>
            ))}
            {COUNTS.map((words) => (
              <th key={words} class="amount">
                {words}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => (
            <Row key={node.node} node={node} />
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

function Row({ node }: { node: Line }) {
  return (
    <tr>
      <td>
        <a href={nodePath(node.node)}>{node.node}</a>
      </td>
      <td>
        <State word={node.health} />
        {node.repeat_offender && " repeat offender"}
      </td>
      <td>{node.reason}</td>
      <td>{actionWords(node.action)}</td>
      <td>
        <Moment at={node.last_report} />
      </td>
      <td class="amount">{node.faults_7d}</td>
      <td class="amount">{node.faults_30d}</td>
      <td class="amount">{node.jobs_30d}</td>
    </tr>
  );
}
