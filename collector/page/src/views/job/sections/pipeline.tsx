/** Pipeline stages, the microbatches of a sampled step, and what the job would gain. */
import type { Schemas } from "../../../api/types";
import { PHASES } from "../../../theme/colours";
import { deviceTime, number, percent, seconds, UNKNOWN } from "../../../words/quantities";
import { Table } from "../../shared/table";
import { Wide } from "../../shared/wide";

type Job = Schemas["JobAnswer"];
type Stage = Schemas["StageTimes"];
type Chunk = Schemas["Chunk"];

/** Stages with their self time, and how far the bubble is from its ideal. */
export function Stages({ pipeline }: { pipeline: Schemas["Pipeline"] }) {
  const columns = ["Stage", "Ranks", "Self time per step", "Busy", "Pipeline wait", "Bubble"];
  const rows = pipeline.stages.map((item) => [
    item.stage,
    item.ranks,
    seconds(item.work_seconds),
    percent(item.busy_ratio),
    percent(item.pipeline_wait_ratio),
    percent(item.bubble_ratio),
  ]);
  return (
    <>
      <Table id="stages" columns={columns} rows={rows} />
      <p class="quiet small">{stageWords(pipeline)}</p>
    </>
  );
}

function stageWords(pipeline: Schemas["Pipeline"]): string {
  const ideal =
    pipeline.ideal_bubble_ratio === null
      ? "the ideal of its schedule is unknown."
      : `the ideal of ${pipeline.schedule || "its schedule"} is ${percent(pipeline.ideal_bubble_ratio)}.`;
  const bubble = `Bubble: ${percent(pipeline.bubble_ratio)} of the pipeline's time; ${ideal}`;
  if (pipeline.limiting_stage === null) return `The limiting stage is unknown. ${bubble}`;
  return (
    `Stage ${pipeline.limiting_stage} limits the pace in ${percent(pipeline.limiting_ratio, 0)} of the steps; ` +
    `it has ${number(pipeline.imbalance_ratio)} times the self time of the mean stage. ${bubble}`
  );
}

const WORK: Readonly<Record<string, string>> = { forward: "forward", backward: "backward", "weight gradient": "eval" };
const MOST_STAGES = 64;
const ROW = 26;
const LEFT = 150;
const WIDTH = 1_000;

/** One step's microbatches, a line a stage. */
export function Microbatches({ found }: { found: Schemas["Microbatches"] | null }) {
  if (!found) return <p class="quiet">No step of a pipeline has been sampled yet.</p>;
  const stages = found.stages.slice(0, MOST_STAGES);
  const ends = stages.flatMap((stage) => stage.chunks.map((chunk) => (chunk.began_seconds ?? 0) + (chunk.seconds ?? 0)));
  const end = Math.max(0, ...ends);
  const scale = end > 0 ? (WIDTH - LEFT) / end : 0;
  const hidden = found.left_out + found.stages.length - stages.length;
  return (
    <div id="microbatches" class="stack">
      <p class="quiet small">{`step ${found.step}, the newest sampled one, of ${found.ranks} ranks`}</p>
      <Wide label="Microbatches by stage">
        <svg class="microbatches" viewBox={`0 0 ${WIDTH} ${stages.length * ROW}`} role="img" aria-label="Microbatches by stage">
          {stages.map((stage, index) => (
            <g key={stage.stage} transform={`translate(0 ${index * ROW})`}>
              <text y="15">{`stage ${stage.stage} · idle ${percent(stage.bubble_ratio)}`}</text>
              {stage.chunks.map((chunk, place) => (
                <ChunkBox key={place} stage={stage} chunk={chunk} scale={scale} />
              ))}
            </g>
          ))}
        </svg>
      </Wide>
      <p class="legend small quiet">
        {Object.entries(WORK).map(([work, colour]) => (
          <span key={work} class="key">
            <i style={{ background: PHASES[colour] ?? "" }} />
            {work}
          </span>
        ))}
        <span>
          {`Blank: idle, or another stage of the rank; numbers: microbatch; ${seconds(end)} across. A line shows the ` +
            "stage's first rank from when that entered the schedule: clocks of ranks are not compared. Idle is the mean " +
            `of the stage's ranks.${hidden ? " Not all stages and microbatches are shown." : ""}`}
        </span>
      </p>
    </div>
  );
}

function ChunkBox({ stage, chunk, scale }: { stage: Stage; chunk: Chunk; scale: number }) {
  const x = LEFT + (chunk.began_seconds ?? 0) * scale;
  const width = Math.max(0.5, (chunk.seconds ?? 0) * scale - 0.5);
  const fits = width >= 8 * (1 + String(chunk.microbatch).length);
  return (
    <>
      <rect x={x} width={width} height="20" fill={PHASES[WORK[chunk.work] ?? "other"] ?? ""}>
        <title>{chunkWords(stage, chunk)}</title>
      </rect>
      {fits && (
        <text class="on-bar" x={x + width / 2} y="14">
          {chunk.microbatch}
        </text>
      )}
    </>
  );
}

function chunkWords(stage: Stage, chunk: Chunk): string {
  const blocked = (chunk.blocked_seconds ?? 0) > 0 ? `, of it ${seconds(chunk.blocked_seconds)} in collectives` : "";
  return (
    `stage ${stage.stage}, rank ${stage.rank}: ${chunk.work} of microbatch ${chunk.microbatch}, ` +
    `${seconds(chunk.seconds)}${blocked}; idle for ${seconds(chunk.idle_before_seconds)} before it`
  );
}

/** What the job would gain without a kind of waste: a model. */
export function WhatIf({ scenarios }: { scenarios: Job["what_if"] }) {
  const isNone = (item: Schemas["WhatIf"]): boolean => item.faster_ratio === 0;
  const rows = scenarios.map((item) => [
    item.scenario,
    seconds(item.step_seconds),
    isNone(item) ? "none beyond the run's own jitter" : gain(item.faster_ratio),
    isNone(item)
      ? "none"
      : item.device_hours === null
        ? UNKNOWN
        : `${deviceTime(3600 * item.device_hours)} in ${item.steps} steps`,
  ]);
  const isEven = scenarios.every(isNone);
  const empty = scenarios.length
    ? "No rank held the others up beyond the run's own jitter."
    : "Unknown: too few steps that every rank reported.";
  return (
    <>
      <Table id="what-if" columns={["These steps", "Step time", "Faster by", "Device time saved"]} rows={isEven ? [] : rows} empty={empty} />
      <p class="quiet small">
        A model: the longest self time sets the length of a step, and the rest stays as it is. What ordinary jitter
        explains is left out, so a rank that is slow now and then counts too little.
      </p>
    </>
  );
}

/** How much faster: in percent, from twice as fast on how many times as fast. */
function gain(ratio: number | null): string {
  if (ratio === null || ratio < 1) return percent(ratio);
  return ratio < 99 ? `${(1 + ratio).toFixed(1)}x as fast` : "over 100x as fast";
}
