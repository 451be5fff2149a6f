/** Parts of a response: the runbook, the reader's name, the incident as Markdown. */
import type { Schemas } from "../../api/types";
import { incidentPath } from "../../app/place";
import { incidentDetail, incidentSentence } from "../../words/verdict";
import { copyText } from "./command";

type Incident = Schemas["JobIncident"];

const NAME_KEY = "stepwatch-name";
/** The path of an incident's runbook, with its values filled in. */
export const runbookPath = (incident: { runbook: string; id: string }): string =>
  `/runbooks/${encodeURIComponent(incident.runbook)}?incident=${encodeURIComponent(incident.id)}`;

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
