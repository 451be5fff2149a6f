/** Figures of the whole fleet: the frame asks for them on every page, and views show them. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useAnswer } from "../api/answer";
import type { Schemas } from "../api/types";

const EVERY_MS = 15_000;

/** The newest figures; null before the first. */
export const fleetFigures = signal<Schemas["FleetAnswer"] | null>(null);

/** Open incidents, and whether one of them is an alert. */
export interface OpenIncidents {
  count: number;
  hasAlert: boolean;
}

/** What a view that shows all jobs counted itself, newer than the figures; null without such a view. */
export const countedOpen = signal<OpenIncidents | null>(null);

/** Returns the open incidents of the fleet; null before they are known. */
export function openOfFleet(): OpenIncidents | null {
  const figures = fleetFigures.value;
  if (countedOpen.value || !figures) return countedOpen.value;
  const { degraded = 0, stalled = 0 } = figures.jobs;
  return { count: figures.open_incidents, hasAlert: degraded + stalled > 0 };
}

/** Keeps the figures up to date while the component is shown. */
export function useFleetFigures(): void {
  const answer = useAnswer<Schemas["FleetAnswer"]>("/v1/fleet", { everyMs: EVERY_MS });
  useEffect(() => {
    fleetFigures.value = answer.value.value;
  }, [answer.value.value]);
}
