/**
 * Hands a trace to Perfetto's page, the documented way:
 * https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui
 */
import { getBytes } from "../../../api/client";

const PERFETTO = "https://ui.perfetto.dev";
const ANSWER_WITHIN_MS = 60_000;
const ASK_EVERY_MS = 250;

/** Opens Perfetto with the trace at a path. Throws Error with the reason, Refusal from the collector. */
export async function openInPerfetto(path: string, title: string, fileName: string): Promise<void> {
  const opened = window.open(PERFETTO);
  if (!opened) throw new Error("the browser did not open a window: allow it, or download the trace");
  const [buffer] = await Promise.all([getBytes(path), ready(opened)]);
  opened.postMessage({ perfetto: { buffer, title, fileName } }, PERFETTO);
}

/** The window gets no message before its page is loaded, so it is asked until it answers. */
function ready(opened: Window): Promise<void> {
  return new Promise((resolve, reject) => {
    const asking = setInterval(() => opened.postMessage("PING", PERFETTO), ASK_EVERY_MS);
    const end = (): void => {
      clearInterval(asking);
      clearTimeout(late);
      removeEventListener("message", hear);
    };
    const late = setTimeout(() => {
      end();
      reject(new Error("ui.perfetto.dev did not answer; download the trace, and open it there"));
    }, ANSWER_WITHIN_MS);
    const hear = (event: MessageEvent): void => {
      if (event.source !== opened || event.origin !== PERFETTO || event.data !== "PONG") return;
      end();
      resolve();
    };
    addEventListener("message", hear);
  });
}
