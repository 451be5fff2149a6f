/** What people do about an incident: acknowledge, assign, silence, mitigate, comment. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { needsToken } from "../../api/answer";
import { postJson, Refusal } from "../../api/client";
import type { Schemas } from "../../api/types";
import { type Act, actsOn, type Answerable, responseOf } from "./acts";
import { copy, markdownOf, NameField, nameIn } from "./response";

const MOST_TEXT = 1_000;
const MOST_REASON = 300;
const WORDS: Record<Act, string> = {
  acknowledged: "Acknowledge",
  reopened: "Page again…",
  assigned: "Assign…",
  silenced: "Silence…",
  unsilenced: "End silence…",
  mitigated: "Mitigated…",
  comment: "Comment…",
};
const LENGTHS = [
  ["3600", "1 hour"],
  ["14400", "4 hours"],
  ["86400", "1 day"],
  ["604800", "7 days"],
] as const;
/** What a form asks for besides the name. */
const ASKED: Partial<Record<Act, string>> = {
  reopened: "Reason",
  assigned: "Owner",
  silenced: "Reason",
  mitigated: "What was done",
  comment: "Comment",
};
const OPTIONAL: readonly Act[] = ["mitigated", "reopened"];

interface RespondProps {
  incident: Answerable;
  /** The responses that are offered, if they fit; all without it. */
  offered?: readonly Act[];
  /** A link or a button before the others. */
  lead?: ComponentChildren;
  /** Gets what people did, after a change. */
  done: (response: Schemas["Response"]) => void;
}

/** The buttons, and the form of the one that was pressed. */
export function Respond({ incident, offered, lead, done }: RespondProps) {
  const chosen = useSignal<Act | null>(null);
  const copied = useSignal("");
  return (
    <div class="stack" id="respond">
      <div class="row tools">
        {lead}
        {actsOn(incident).filter((act) => offered?.includes(act) ?? true).map((act) => (
          <button
            key={act}
            type="button"
            class={act === "acknowledged" && !lead ? "primary" : ""}
            aria-expanded={chosen.value === act}
            onClick={() => (chosen.value = chosen.value === act ? null : act)}
          >
            {WORDS[act]}
          </button>
        ))}
        <button type="button" onClick={() => void copy(markdownOf(incident)).then((words) => (copied.value = words))}>
          Copy
        </button>
        <span role="status" class="quiet small">
          {copied.value}
        </span>
      </div>
      {chosen.value && (
        <Form
          key={chosen.value}
          act={chosen.value}
          incident={incident}
          done={(changed) => {
            chosen.value = null;
            done(changed);
          }}
        />
      )}
    </div>
  );
}

interface FormProps {
  act: Act;
  incident: Answerable;
  done: RespondProps["done"];
}

function Form({ act, incident, done }: FormProps) {
  const text = useSignal("");
  const length = useSignal("3600");
  const failure = useSignal("");
  const isSending = useSignal(false);
  const asked = ASKED[act];
  const send = async (by: string): Promise<void> => {
    isSending.value = true;
    failure.value = "";
    try {
      done(await sent(act, incident, by, text.value, Number(length.value)));
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) needsToken.value = true;
      failure.value = error instanceof Error ? error.message : String(error);
    }
    isSending.value = false;
  };
  return (
    <form
      class="panel row"
      onSubmit={(event) => {
        event.preventDefault();
        void send(nameIn(event.currentTarget));
      }}
    >
      <label>
        Your name <NameField />
      </label>
      {asked && (
        <label class="grows">
          {asked}{" "}
          <input
            value={text.value}
            maxLength={act === "silenced" ? MOST_REASON : MOST_TEXT}
            required={!OPTIONAL.includes(act)}
            onInput={(event) => (text.value = event.currentTarget.value)}
          />
        </label>
      )}
      {act === "silenced" && (
        <label>
          For{" "}
          <select value={length.value} onChange={(event) => (length.value = event.currentTarget.value)}>
            {LENGTHS.map(([seconds, words]) => (
              <option key={seconds} value={seconds}>
                {words}
              </option>
            ))}
          </select>
        </label>
      )}
      <button type="submit" class="primary" disabled={isSending.value}>
        {act === "silenced" ? `Silence ${incident.kind} of ${incident.job}` : act === "acknowledged" ? "Acknowledge" : "Send"}
      </button>
      {failure.value && (
        <p class="notice" role="alert">
          Not done: {failure.value}
        </p>
      )}
    </form>
  );
}

async function sent(
  act: Act,
  incident: Answerable,
  by: string,
  text: string,
  seconds: number,
): Promise<Schemas["Response"]> {
  const response = responseOf(incident);
  if (act === "unsilenced") {
    await postJson(`/v1/silences/${encodeURIComponent(response.silenced?.id ?? "")}`, { by }, "DELETE");
    return { ...response, silenced: null };
  }
  if (act !== "silenced") {
    const path = `/v1/incidents/${encodeURIComponent(incident.id)}/notes`;
    return (await postJson<Schemas["IncidentAnswer"]>(path, { event: act, by, text })).response;
  }
  const wanted = { job: incident.job, kind: incident.kind, why: text, by, seconds };
  return { ...response, silenced: await postJson<Schemas["Silence"]>("/v1/silences", wanted) };
}
