/** Asks one request at a time, with a pause between two. */
import { isIdle } from "./attention";

/** The pause while the tab is idle: 200 such tabs take less than 5 % of a core. */
const IDLE_PAUSE_MS = 120_000;

/** Repeats `ask`, which tells whether it got an answer; `leastMs` is the pause after one. */
export class Asking {
  private running = false;
  private again = false;
  private ended = false;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly ask: () => Promise<boolean>,
    private readonly leastMs: number,
  ) {}

  /** Asks now, or after the pause; an urgent question has no pause. */
  now(isUrgent = false): void {
    if (this.running || (this.timer !== undefined && !isUrgent)) {
      this.again = true;
      return;
    }
    clearTimeout(this.timer);
    this.timer = undefined;
    this.running = true;
    this.again = false;
    void this.ask().then((hasAnswer) => {
      this.running = false;
      if (!this.ended) this.pause(hasAnswer && isIdle() ? Math.max(this.leastMs, IDLE_PAUSE_MS) : this.leastMs);
    });
  }

  private pause(forMs: number): void {
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (this.again) this.now();
    }, forMs);
  }

  end(): void {
    this.ended = true;
    clearTimeout(this.timer);
  }
}
