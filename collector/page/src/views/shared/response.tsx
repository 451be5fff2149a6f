/** What a person does about an incident: take it, comment, silence, copy. */
import { useSignal } from "@preact/signals";
import { postJson, Refusal } from "../../api/client";
import type { Schemas } from "../../api/types";
import { incidentPath } from "../../app/place";
import { incidentDetail, incidentSentence } from "../../words/verdict";
import { copyText } from "./command";

type Incident = Schemas["JobIncident"];

const NAME_KEY = "stepwatch-name";
const SILENCES = [
  ["1 h", 3_600],
  ["4 h", 14_400],
  ["24 h", 86_400],
] as const;

/** The path of an incident's runbook, with its values filled in. */
export const runbookPath = (incident: { runbook: string; id: string }): string =>
  `/runbooks/${encodeURIComponent(incident.runbook)}?incident=${encodeURIComponent(incident.id)}`;

/** Runbook, acknowledge, silence and copy; a refusal is shown in the collector's words. */
export function Actions({ incident, onDone }: { incident: Incident; onDone?: () => void }) {
  const asked = useSignal<"" | "acknowledge" | "silence">("");
  const words = useSignal("");
  const send = async (path: string, document: unknown, done: string): Promise<void> => {
    try {
      await postJson(path, document);
      words.value = done;
      asked.value = "";
      onDone?.();
    } catch (error) {
      words.value = error instanceof Refusal ? error.message : String(error);
    }
  };
  const taken = incident.response?.acknowledged ?? null;
  return (
    <div class="stack actions">
      <div class="row tools">
        <a class="button primary" href={runbookPath(incident)}>
          Open runbook
        </a>
        {taken ? (
          <span class="quiet small">acknowledged by {taken.by}</span>
        ) : (
          <button type="button" onClick={() => (asked.value = asked.value === "acknowledge" ? "" : "acknowledge")}>
            Acknowledge
          </button>
        )}
        <button type="button" onClick={() => (asked.value = asked.value === "silence" ? "" : "silence")}>
          Silence…
        </button>
        <button type="button" onClick={() => void copy(markdownOf(incident)).then((text) => (words.value = text))}>
          Copy
        </button>
      </div>
      {asked.value === "acknowledge" && (
        <NameForm
          action="Acknowledge"
          onSend={(by) =>
            send(`/v1/incidents/${encodeURIComponent(incident.id)}/notes`, { event: "acknowledged", by, text: "" }, "Acknowledged.")
          }
        />
      )}
      {asked.value === "silence" && (
        <SilenceForm
          onSend={(by, why, seconds) =>
            send("/v1/silences", { job: incident.job, kind: incident.kind, by, why, seconds }, "Silenced: pages stop, the state stays.")
          }
        />
      )}
      <p class="small" role="status">
        {words.value}
      </p>
    </div>
  );
}

/** Asks for the name that goes with a change; this browser keeps it. */
export function NameForm({ action, onSend }: { action: string; onSend: (by: string) => void }) {
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        onSend(nameIn(event.currentTarget));
      }}
    >
      <NameField />
      <button class="primary" type="submit">
        {action}
      </button>
    </form>
  );
}

function SilenceForm({ onSend }: { onSend: (by: string, why: string, seconds: number) => void }) {
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        const data = new FormData(event.currentTarget);
        onSend(nameIn(event.currentTarget), String(data.get("why")), Number(data.get("seconds")));
      }}
    >
      <NameField />
      <input name="why" aria-label="Reason" placeholder="reason" required maxLength={300} />
      <select name="seconds" aria-label="Length">
        {SILENCES.map(([words, seconds]) => (
          <option key={words} value={seconds}>
            {words}
          </option>
        ))}
      </select>
      <button class="primary" type="submit">
        Silence
      </button>
    </form>
  );
}

/** The field for the reader's name. */
export function NameField() {
  return (
    <input
      name="by"
      aria-label="Your name"
      placeholder="your name"
      required
      maxLength={80}
      defaultValue={localStorage.getItem(NAME_KEY) ?? ""}
    />
  );
}

/** Returns the name in a form with a `NameField`, and keeps it for the next one. */
export function nameIn(form: HTMLFormElement): string {
  const name = String(new FormData(form).get("by") ?? "").trim();
  localStorage.setItem(NAME_KEY, name);
  return name;
}

/** Returns an incident as Markdown for a chat or a ticket. */
export function markdownOf(incident: Incident): string {
  // Text of a job cannot form markup: a backslash goes before each sign that Markdown reads.
  const plain = (text: string): string => text.replace(/[\\`*_{}[\]<>()#+!|~-]/g, "\\$&");
  const lines = [
    `**${plain(incidentSentence(incident))}**`,
    plain(incidentDetail(incident)),
    `${location.origin}${incidentPath(incident.id)}`,
  ];
  return lines.join("\n\n");
}

/** Copies text; returns what happened, in words. */
export async function copy(text: string): Promise<string> {
  const isCopied = await copyText(text);
  return isCopied ? "Copied." : "The browser does not allow copying: select the text instead.";
}
