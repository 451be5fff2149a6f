/** Where the time of the newest steps goes: of a step, and of ranks by cost. */
import type { Schemas } from "../../../api/types";
import { PHASES } from "../../../theme/colours";
import { percent, seconds, UNKNOWN } from "../../../words/quantities";
import { Table } from "../../shared/table";

type Job = Schemas["JobAnswer"];
type Rank = Schemas["RankByCost"];

const PARTS: readonly (readonly [string, string, string])[] = [
  ["data", "data", "data"],
  ["forward", "forward", "forward"],
  ["backward", "backward", "backward"],
  ["optimizer", "optimizer", "optimizer"],
  ["checkpoint", "checkpoint", "checkpoint"],
  ["eval", "eval", "eval"],
  ["other", "other", "other"],
  ["transfer", "exposed transfer", "transfer"],
  ["arrival_skew", "arrival skew", "collective"],
  ["collective_unsplit", "collectives, transfer or arrival skew unknown", "unknown"],
  ["pipeline_wait", "pipeline wait", "pipeline"],
  ["unaccounted", "unaccounted", "unknown"],
];
const LEAST_SHOWN = 0.0005;

/** A row of parts whose shares are 0 to 1, with their names below. */
function Bar({ parts, label }: { parts: readonly (readonly [string, number, string])[]; label: string }) {
  let from = 0;
  return (
    <svg class="shares" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={label}>
      {parts.map(([name, share, colour]) => {
        const x = from;
        from += 100 * share;
        return (
          <rect key={name} x={x} width={Math.max(0, 100 * share)} height="6" fill={PHASES[colour] ?? ""}>
            <title>{`${name} ${percent(share)}`}</title>
          </rect>
        );
      })}
    </svg>
  );
}

/** The mean step of all ranks by part. */
export function StepTime({ job }: { job: Job }) {
  const breakdown = job.step_time_breakdown;
  if (!breakdown) return <p class="quiet">No step has been received yet.</p>;
  const parts = PARTS.flatMap(([key, name, colour]) => {
    const share = breakdown.ratio[key] ?? 0;
    return share > LEAST_SHOWN ? [[name, share, colour] as const] : [];
  });
  const steps = breakdown.steps ? `steps ${breakdown.steps.join(" to ")}, ` : "";
  return (
    <div id="step-time" class="stack">
      <p class="quiet small">{`${steps}${seconds(breakdown.step_seconds)} a step, mean of the ranks`}</p>
      <Bar parts={parts} label="Step time by part" />
      <p class="legend small">
        {parts.map(([name, share, colour]) => (
          <span key={name} class="key">
            <i style={{ background: PHASES[colour] ?? "" }} />
            {`${name} ${percent(share)}`}
          </span>
        ))}
      </p>
      <p class="quiet small" id="step-time-clock">
        {timingWords(job.timing)}
      </p>
    </div>
  );
}

/** Which clock timed the steps, and how busy the devices are; idle is an upper bound. */
export function timingWords(timing: Schemas["Timing"]): string {
  if (timing.clock === "host") return `Timed on the host${timing.reason === null ? "" : `: ${timing.reason}`}.`;
  const kinds = timing.devices.length ? ` (${timing.devices.join(", ")})` : "";
  const idle = Object.entries(timing.idle_seconds)
    .flatMap(([phase, value]) => (value !== null && value > 0 ? [[phase, value] as const] : []))
    .sort((one, other) => other[1] - one[1])
    .slice(0, 3)
    .map(([phase, value]) => `${phase} ${seconds(value)}`);
  return (
    `Timed on the device${kinds}, moments to within ${seconds(timing.clock_error_seconds)}. ` +
    `It waits for its host up to ${percent(timing.idle_ratio)} of the step` +
    `${idle.length ? ` (${idle.join(", ")})` : ""}${timing.launch_bound ? ": launch-bound" : ""}. ` +
    `The host is ${seconds(timing.host_lead_seconds)} ahead.`
  );
}

// By ProcessState of stepwatch.signals.records; a rank that finished may go, any other must be seen to have gone.
const ANOMALOUS: Readonly<Record<number, string>> = { 4: "stopped", 5: "dead", 6: "gone" };

function processWords(rank: Rank, job: Job): string {
  const word = ANOMALOUS[rank.process_state ?? -1];
  if (word === undefined) return "";
  const mayGo = ["finish", "interrupt"].includes(rank.ended ?? "") || job.state === "interrupted";
  return mayGo ? "ended" : word;
}

/** Ranks by cost: the slowest, the median and the fastest, and those whose process is gone. */
export function RanksByCost({ job }: { job: Job }) {
  const rows = job.ranks_by_cost.map((rank) => {
    const process = processWords(rank, job);
    return [
      rank.standing,
      <b>{`rank ${rank.rank}`}</b>,
      rank.node ?? UNKNOWN,
      rank.stage ?? UNKNOWN,
      seconds(rank.self_seconds),
      <Bar parts={sharesOf(rank)} label={`Shares of rank ${rank.rank}`} />,
      process ? <span class={process === "ended" ? "quiet" : "state s-bad"}>{process}</span> : "",
    ];
  });
  const columns = ["Place", "Rank", "Node", "Stage", "Self time a step", "Phases and waits", "Process"];
  return <Table id="ranks" columns={columns} rows={rows} empty="No step has been received yet." />;
}

function sharesOf(rank: Rank): (readonly [string, number, string])[] {
  const phases = PARTS.slice(0, 7).map(([key, name, colour]) => [name, rank.phase_share[key] ?? 0, colour] as const);
  return [
    ...phases,
    ["wait in collectives", rank.collective_wait_share ?? 0, "collective"],
    ["pipeline wait", rank.pipeline_wait_share ?? 0, "pipeline"],
  ];
}
