/** Moments in the reader's time zone; UTC for the hover text. */
import { UNKNOWN } from "./quantities";

const DAY_S = 86_400;
const pad = (value: number): string => String(value).padStart(2, "0");

/** The time of day, with the date where it is not today's; `unix` in seconds. */
export function clock(unix: number | null | undefined, now = Date.now() / 1000): string {
  if (unix === null || unix === undefined) return UNKNOWN;
  const moment = new Date(1000 * unix);
  const time = `${pad(moment.getHours())}:${pad(moment.getMinutes())}:${pad(moment.getSeconds())}`;
  const isNear = Math.abs(now - unix) < DAY_S && moment.getDate() === new Date(1000 * now).getDate();
  return isNear ? time : `${moment.getFullYear()}-${pad(moment.getMonth() + 1)}-${pad(moment.getDate())} ${time}`;
}

/** The moment in UTC. */
export const utc = (unix: number | null | undefined): string =>
  unix === null || unix === undefined
    ? UNKNOWN
    : `${new Date(1000 * unix).toISOString().replace("T", " ").slice(0, 19)} UTC`;
