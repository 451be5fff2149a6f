/** All nodes, the worst first. */
import { useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { useTitle } from "../../app/title";
import { Loaded } from "../shared/loading";
import { NodeRows } from "./rows";

type Nodes = Schemas["NodesAnswer"];
/** As many as the collector answers at once. */
const PATH = "/v1/nodes?worst_first=1&limit=500";
/** Nodes have no events of their own. 500 rows are about 15 kB, gzipped. */
const NODES_EVERY_MS = 10_000;
const WORST_FIRST = ["failed", "degraded", "unknown", "healthy"] as const;

/** The view. */
export function NodesView() {
  const answer = useAnswer<Nodes>(PATH, { everyMs: NODES_EVERY_MS }).value;
  useTitle("Nodes", answer.value?.counts.failed);
  return (
    <main>
      <h1 id="title">Nodes</h1>
      <Loaded answer={answer}>{(nodes) => <Shown nodes={nodes} />}</Loaded>
    </main>
  );
}

function Shown({ nodes }: { nodes: Nodes }) {
  const total = WORST_FIRST.reduce((sum, word) => sum + nodes.counts[word], 0);
  if (!total) return <NoNodes />;
  return (
    <div class="stack">
      <p class="quiet" id="summary">
        {summaryOf(nodes, total)}
      </p>
      <div id="together" class="stack">
        {nodes.together.map((shared) => (
          <section key={shared.summary} class="notice stack incident">
            <b>{shared.summary}</b>
            <span class="small">{shared.nodes.join(", ")}</span>
          </section>
        ))}
      </div>
      <NodeRows nodes={nodes.nodes} />
    </div>
  );
}

function summaryOf(nodes: Nodes, total: number): string {
  const counts = WORST_FIRST.filter((word) => nodes.counts[word]).map((word) => `${nodes.counts[word]} ${word}`);
  const left = total > nodes.nodes.length ? `; the worst ${nodes.nodes.length} are shown, stepwatch nodes shows all` : "";
  const cut = nodes.history_cut ? "; there are more faults than are read at once: counts are lower bounds" : "";
  return counts.join(", ") + left + cut;
}

function NoNodes() {
  return (
    <div class="empty stack" id="empty">
      <p>No agent has reported a node yet. A node appears with the first job on it, where an agent runs:</p>
      <code class="command">stepwatch agent --collector {location.origin}</code>
    </div>
  );
}
