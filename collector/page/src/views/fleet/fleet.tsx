/** The fleet: what needs action first, then all other jobs. */
import { useTitle } from "../../app/title";
import { useJobLines } from "../../api/lines";
import type { Schemas } from "../../api/types";
import { jobPath } from "../../app/place";
import { number, UNKNOWN } from "../../words/quantities";
import { Loaded } from "../shared/loading";
import { Moment } from "../shared/moment";
import { staleWords } from "../shared/stale";
import { State, urgency } from "../shared/state";

type Line = Schemas["JobLineAnswer"];

/** All jobs. */
export function Fleet() {
  const jobs = useJobLines().value;
  const open = jobs.value?.jobs.reduce((sum, line) => sum + (line.open_incidents ?? 0), 0);
  useTitle("Fleet", open);
  return (
    <main>
      <h1>Jobs</h1>
      <Loaded answer={jobs}>{(value) => (value.jobs.length ? <Jobs lines={value.jobs} /> : <NoJobs />)}</Loaded>
    </main>
  );
}

function Jobs({ lines }: { lines: Line[] }) {
  const ordered = [...lines].sort((one, other) => urgency(one.state) - urgency(other.state));
  return (
    <div class="wide panel">
      <table id="jobs">
        <thead>
          <tr>
            {["Job", "State", "Ranks", "Step", "Incidents", "Last received"].map((words) => (
              <th key={words}>{words}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {ordered.map((line) => (
            <tr key={line.job}>
              <td>
                <a href={jobPath(line.job)}>{line.job}</a>
              </td>
              <td>
                <State word={line.state} /> {whyState(line)}
              </td>
              <td>{line.world_size || UNKNOWN}</td>
              <td>{number(line.step, 0)}</td>
              <td>{line.worst ? line.worst.summary : line.open_incidents === null ? UNKNOWN : "none"}</td>
              <td>
                <Moment at={line.newest_record_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const whyState = (line: Line): string => staleWords(line.stale) || (line.reason ?? "");

function NoJobs() {
  return (
    <div class="empty stack" id="empty">
      <p>No job has reported yet. Start the agent on each node, then the training with the hooks:</p>
      <code class="command">stepwatch agent --collector {location.origin}</code>
      <code class="command">stepwatch run -- torchrun --nproc-per-node 8 train.py</code>
    </div>
  );
}
