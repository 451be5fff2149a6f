/** An incident's figures: its cost runs on while it is open. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Schemas } from "../../api/types";
import { clock } from "../../words/moments";
import { deviceTime, money, percent, seconds } from "../../words/quantities";
import { costAfter } from "./story";

type Incident = Schemas["IncidentAnswer"];
const TICK_MS = 1_000;
const HOUR_S = 3_600;

/** Cost, loss, detection, place, and who has it; `at` is when the answer came, in milliseconds. */
export function Figures({ incident, at }: { incident: Incident; at: number }) {
  const now = useSignal(Date.now());
  const isOpen = incident.state === "open";
  useEffect(() => {
    if (!isOpen) return;
    const timer = setInterval(() => (now.value = Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [isOpen]);
  const cost = costAfter(incident, (Math.max(now.value, at) - at) / 1000);
  const lost = isOpen ? incident.throughput_lost_ratio_now ?? incident.throughput_lost_ratio : incident.throughput_lost_ratio;
  const price = cost.money === null ? "" : ` (${money(cost.money, cost.currency)})`;
  const { acknowledged, owner } = incident.response;
  const rows: [string, string, string][] = [
    ["cost", deviceTime(cost.deviceSeconds) + price, costWords(cost.rate)],
    ["lost", percent(lost, 0), isOpen ? "of the throughput, now" : "of the throughput"],
    ["detected", seconds(incident.detected_after_seconds), "from its start to its detection"],
    ["rank", incident.rank < 0 ? "no single one" : String(incident.rank), `rank; phase ${incident.phase || "unknown"}`],
    ["cause", incident.cause.replaceAll("-", " ") || "unknown", incident.confidence ? `cause, ${incident.confidence}` : "cause"],
    ["acknowledged", acknowledged ? acknowledged.by : "not yet", acknowledged ? `acknowledged, ${clock(acknowledged.at)}` : "acknowledged"],
    ["owner", owner || "none", "owner"],
  ];
  return (
    <dl class="figures" id="figures">
      {rows.map(([key, value, words]) => (
        <div key={key} id={`figure-${key}`}>
          <dd>{value}</dd>
          <dt>{words}</dt>
        </div>
      ))}
    </dl>
  );
}

const costWords = (rate: number): string => (rate > 0 ? `so far; ${deviceTime(rate * HOUR_S)} more in an hour` : "in all");
