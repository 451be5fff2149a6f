/** One rank at one moment against its peers: what a click on a cell opens. */
import { useAnswer } from "../../api/answer";
import type { Schemas } from "../../api/types";
import { nodePath } from "../../app/place";
import { Comparisons } from "../../charts/bars";
import { sharesOf } from "../../charts/comparisons";
import { clock } from "../../words/moments";
import { seconds, UNKNOWN } from "../../words/quantities";

/** What the drawer is about. */
export interface Selected {
  rank: number;
  steps: [number, number];
  at: number | null;
}

interface DrawerProps {
  job: Schemas["JobAnswer"];
  selected: Selected;
  onClose: () => void;
}

const METRICS = ["self_time", "forward", "backward", "optimizer", "data", "collective_wait", "pipeline_wait"] as const;
const NO_MOMENT = 4e9;

/** The rank's time by phase beside the median of the other ranks, in the steps of the cell. */
export function Drawer({ job, selected, onClose }: DrawerProps) {
  const { rank, steps, at } = selected;
  const range = steps[0] === steps[1] ? `step ${steps[0]}` : `steps ${steps[0]} to ${steps[1]}`;
  const own = useAnswer<Schemas["MatrixAnswer"]>(cellPath(job.job, "self_time", selected, true)).value.value;
  const node = own?.rows[0]?.nodes[0] ?? null;
  const incident = job.incidents.find((item) => item.rank === rank && (item.began_at ?? NO_MOMENT) <= (at ?? NO_MOMENT));
  return (
    <section class="panel stack" aria-label={`Rank ${rank}`} id="drawer">
      <div class="row">
        <h2>{`Rank ${rank}, ${range}`}</h2>
        <button type="button" class="chip push" onClick={onClose}>
          close
        </button>
      </div>
      <p class="quiet small">
        {at === null ? "" : `${clock(at)} · `}
        {node ? <a href={nodePath(node)}>{node}</a> : `node ${UNKNOWN}`}
      </p>
      {METRICS.map((metric) => (
        <Phase key={metric} job={job.job} metric={metric} selected={selected} />
      ))}
      {incident && <Facts incident={incident} />}
    </section>
  );
}

/** Returns the path of a rank's time in the steps of the cell, or of all ranks' time. */
function cellPath(job: string, metric: string, { rank, steps }: Selected, isOwn: boolean): string {
  const window = `from_step=${steps[0]}&to_step=${steps[1]}&columns=1&rows=512`;
  const ranks = isOwn ? `&first=${rank}&last=${rank}` : "";
  return `/v1/jobs/${encodeURIComponent(job)}/matrix?metric=${metric}&${window}${ranks}`;
}

function Phase({ job, metric, selected }: { job: string; metric: string; selected: Selected }) {
  const own = useAnswer<Schemas["MatrixAnswer"]>(cellPath(job, metric, selected, true)).value.value;
  const all = useAnswer<Schemas["MatrixAnswer"]>(cellPath(job, metric, selected, false)).value.value;
  if (!own || !all) return null;
  const value = own.seconds[0]?.[0] ?? null;
  const peers = all.rows.flatMap(({ first, last }, index) => {
    const peer = all.seconds[index]?.[0] ?? null;
    return peer === null || (first === selected.rank && last === selected.rank) ? [] : [peer];
  });
  const middle = peers.sort((one, other) => one - other)[peers.length >> 1] ?? null;
  if (value === null && middle === null) return null;
  const [share, peerShare] = sharesOf(value, middle);
  const name = metric.replaceAll("_", " ");
  return <Comparisons items={[{ name, value: seconds(value), against: `peers ${seconds(middle)}`, share, peerShare }]} />;
}

function Facts({ incident }: { incident: Schemas["JobIncident"] }) {
  const facts = incident.evidence.filter((item) => item.text);
  if (!facts.length) return null;
  return (
    <>
      <h3>Facts at that moment</h3>
      <dl class="facts small">
        {facts.map((item) => (
          <div key={item.name}>
            <dt class="quiet">{item.name}</dt>
            <dd>{item.text}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}
