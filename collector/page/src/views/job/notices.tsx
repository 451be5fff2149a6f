/** Lines above the board: what limits what it shows. */
import type { Schemas } from "../../api/types";
import { clock } from "../../words/moments";

type Job = Schemas["JobAnswer"];

/** Returns the notices of a job; empty on a plain run. */
export function noticesOf(job: Job): string[] {
  const failed = Object.entries(job.not_looked_for);
  const shared = job.shared_name;
  return [
    failed.length
      ? `Not looked for: ${failed.map(([kind, reason]) => `${kind} (${reason})`).join(", ")}.`
      : "",
    shared
      ? `Two runs report under this name: rank ${shared.rank} runs on ${shared.nodes.join(" and on ")} at once ` +
        `(${shared.ranks} such ranks). What is shown mixes them: start one of them with another --job.`
      : "",
    ...job.unread.map(
      (part) =>
        `Segments ${part.first} to ${part.last} of the log (${part.segments}, from ${clock(part.from_s)} to ` +
        `${clock(part.until_s)}) could not be read: their steps are missing here.`,
    ),
    job.lost_records ? `${job.lost_records} records were lost on the way.` : "",
    job.refused_records ? `${job.refused_records} records were refused.` : "",
  ].filter(Boolean);
}

/** The notices. */
export function Notices({ job }: { job: Job }) {
  return (
    <>
      {noticesOf(job).map((words) => (
        <p key={words} class="notice small">
          {words}
        </p>
      ))}
    </>
  );
}

/** Runs in experiment trackers. Their addresses come from the job: other schemes than http stay text. */
export function TrackerRuns({ links }: { links: Job["links"] }) {
  if (!links.length) return null;
  return (
    <p class="quiet small" id="tracked">
      Tracked in:{" "}
      {links.map((link, index) => {
        const text = link.run || link.url;
        return (
          <span key={index}>
            {index ? ", " : ""}
            {link.tracker}{" "}
            {/^https?:\/\//i.test(link.url) ? (
              <a href={link.url} rel="noopener noreferrer">
                {text}
              </a>
            ) : (
              text
            )}
          </span>
        );
      })}
    </p>
  );
}
