/** The search of the frame: jobs, nodes and incidents by name or words, with the keyboard alone. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { getJson, Refusal } from "../api/client";
import type { Schemas } from "../api/types";
import { State } from "../views/shared/state";
import { visit } from "./keys";
import { incidentPath, jobPath, nodePath, path } from "./place";

const PAUSE_MS = 150;
/** The collector refuses longer texts. */
const MOST_CHARACTERS = 100;
const LIST = "search-results";

/** A result: where it leads, and how it is shown. */
interface Result {
  group: string;
  to: string;
  name: string;
  words: string;
  state: string;
}

/** Returns an answer's results in the order in which they are shown. */
export function resultsOf(answer: Schemas["SearchAnswer"]): Result[] {
  const named = (group: string, to: (name: string) => string) => (entry: { name: string; words: string; state: string }) => ({ ...entry, group, to: to(entry.name) });
  return [
    ...answer.jobs.map(named("Jobs", jobPath)),
    ...answer.nodes.map(named("Nodes", nodePath)),
    ...answer.incidents.map(({ id, words, state }) => ({ group: "Incidents", to: incidentPath(id), name: id, words, state })),
  ];
}

/** What was asked last, and what came of it. */
interface Found {
  results: Result[];
  failure: string;
}

async function found(text: string): Promise<Found> {
  try {
    return { results: resultsOf(await getJson(`/v1/search?q=${encodeURIComponent(text)}`)), failure: "" };
  } catch (error) {
    return { results: [], failure: error instanceof Refusal ? error.message : String(error) };
  }
}

/** The field and, below it, what is found. */
export function Search() {
  const text = useSignal("");
  const shown = useSignal<Found | null>(null);
  const chosen = useSignal(0);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const wanted = text.value.trim();
    if (!wanted) return void (shown.value = null);
    let isOver = false;
    const timer = setTimeout(async () => {
      const answer = await found(wanted);
      if (isOver) return;
      shown.value = answer;
      chosen.value = 0;
    }, PAUSE_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [text.value]);
  const close = (): void => {
    text.value = "";
    shown.value = null;
  };
  useEffect(close, [path.value]);
  const pressed = (event: KeyboardEvent): void => {
    const results = shown.value?.results ?? [];
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && results.length) chosen.value = (chosen.value + by + results.length) % results.length;
    else if (event.key === "Enter" && results[chosen.value]) {
      visit(results[chosen.value]?.to ?? "/");
      close();
    }
    else if (event.key === "Escape") {
      close();
      input.current?.blur();
      return;
    } else return;
    event.preventDefault();
  };
  const option = shown.value?.results.length ? `${LIST}-${chosen.value}` : undefined;
  return (
    <div class="search" role="search" onFocusOut={(event) => !event.currentTarget.contains(event.relatedTarget as Node | null) && (shown.value = null)}>
      <input
        ref={input}
        type="search"
        role="combobox"
        list={undefined}
        aria-label="Search jobs, nodes and incidents"
        aria-expanded={shown.value !== null}
        aria-controls={LIST}
        aria-autocomplete="list"
        aria-activedescendant={option}
        placeholder="Search jobs, nodes, incidents — /"
        maxLength={MOST_CHARACTERS}
        autocomplete="off"
        spellcheck={false}
        value={text.value}
        onInput={(event) => (text.value = event.currentTarget.value)}
        onKeyDown={pressed}
      />
      {shown.value && <Results found={shown.value} chosen={chosen.value} />}
    </div>
  );
}

function Results({ found: { results, failure }, chosen }: { found: Found; chosen: number }) {
  useEffect(() => document.getElementById(`${LIST}-${chosen}`)?.scrollIntoView({ block: "nearest" }), [chosen]);
  if (!results.length) return <p class="found quiet" role="status">{failure || "Nothing has this name or these words."}</p>;
  return (
    <div class="found" id={LIST} role="listbox" aria-label="What was found">
      {[...new Set(results.map((result) => result.group))].map((group) => (
        <div key={group} role="group" aria-label={group}>
          <p class="quiet small" aria-hidden="true">
            {group}
          </p>
          {results.map((result, index) =>
            result.group === group ? (
              <a key={result.to} id={`${LIST}-${index}`} role="option" aria-selected={index === chosen} href={result.to} tabIndex={-1}>
                <State word={result.state} tone={result.group === "Jobs" && result.state === "degraded" ? "bad" : undefined} /> <bdi>{result.group === "Incidents" ? result.words : result.name}</bdi>
                {result.group !== "Incidents" && <span class="quiet small"> {result.words}</span>}
              </a>
            ) : null,
          )}
        </div>
      ))}
    </div>
  );
}
