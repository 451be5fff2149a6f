/** The frame of all views: navigation, search, open incidents, and how fresh the page is. */
import { useComputed } from "@preact/signals";
import { failureCount, needsToken } from "../api/answer";
import { keepToken } from "../api/client";
import { connection } from "../api/live";
import { nextTheme, theme } from "../theme/theme";
import { number } from "../words/quantities";
import { openOfFleet, useFleetFigures } from "./figures";
import { keysShown } from "./keys";
import { path } from "./place";
import { Search } from "./search";
import { SECTIONS, viewOf } from "./views";

/** The whole page. */
export function Frame() {
  const shown = viewOf(path.value);
  return (
    <>
      <Top section={shown?.entry.section ?? ""} />
      <TokenForm />
      {keysShown.value && <Keys />}
      {shown ? <shown.entry.view key={path.value} name={shown.name} /> : <NoPage />}
    </>
  );
}

function Top({ section }: { section: string }) {
  return (
    <header class="top">
      <a class="brand" href="/">
        stepwatch
      </a>
      <nav aria-label="Sections">
        {SECTIONS.map(([to, words]) => (
          <a key={to} href={to} aria-current={section === to ? "page" : undefined}>
            {words}
          </a>
        ))}
      </nav>
      <Search />
      <div class="right small">
        <Open />
        <Freshness />
        <button class="chip" type="button" onClick={nextTheme} title="Theme: system, light or dark">
          {theme.value}
        </button>
        <button class="chip" type="button" aria-label="Keys" onClick={() => (keysShown.value = !keysShown.value)}>
          ?
        </button>
      </div>
    </header>
  );
}

/** The number of the fleet's open incidents, which leads to their jobs. */
function Open() {
  useFleetFigures();
  const open = openOfFleet();
  if (!open?.count) return null;
  return (
    <a class={`state s-${open.hasAlert ? "bad" : "warn"}`} id="open" href="/?state=open">
      {number(open.count, 0)} open
    </a>
  );
}

/** In words how new the data is: live, asked at an interval, or not renewed. */
function Freshness() {
  const words = useComputed(() =>
    failureCount.value > 0
      ? "no answer from the collector"
      : { stream: "live", polling: "asks every 3 s", closed: "paused", idle: "" }[connection.value],
  );
  const isStale = failureCount.value > 0;
  return (
    <span role="status" class={isStale ? "state s-bad" : "quiet"} id="freshness">
      {words}
    </span>
  );
}

/** Asks once for a token, where the collector wants one. */
function TokenForm() {
  if (!needsToken.value) return null;
  return (
    <main>
      <form
        class="panel row"
        onSubmit={(event) => {
          event.preventDefault();
          const input = event.currentTarget.querySelector("input");
          if (input?.value) {
            keepToken(input.value.trim());
            location.reload();
          }
        }}
      >
        <label for="token">This collector needs a token.</label>
        <input id="token" type="password" autocomplete="off" required />
        <button class="primary" type="submit">
          Use it
        </button>
        <span class="quiet small">It is kept for this tab only.</span>
      </form>
    </main>
  );
}

const KEYS = [
  ["/", "search"],
  ["f", "filter the list"],
  ...SECTIONS.map(([, words, key]) => [`g ${key}`, `go to ${words}`]),
  ["↑ ↓ Enter", "move through jobs, open one"],
  ["?", "show or hide this list"],
] as const;

function Keys() {
  return (
    <main>
      <section class="panel" aria-label="Keys">
        <dl class="figures">
          {KEYS.map(([key, words]) => (
            <div key={key}>
              <dd class="mono">{key}</dd>
              <dt>{words}</dt>
            </div>
          ))}
        </dl>
      </section>
    </main>
  );
}

function NoPage() {
  return (
    <main>
      <h1>There is no such page</h1>
      <p>
        <a href="/">All jobs</a> are on the first page.
      </p>
    </main>
  );
}
