/** What the reader chooses about the list: text, state, class, project, node, order, groups. All of it is in the address. */
import { useSignal } from "@preact/signals";
import { query, setQuery } from "../../app/place";
import { number } from "../../words/quantities";
import { GROUP_NAMES, isIn, type Line, matching, ORDER_WORDS, valuesOf, type Wanted } from "./arrange";

const STATES = [
  ["", "all"],
  ["open", "open incidents"],
  ["unknown", "unknown"],
  ["training", "training"],
  ["ended", "ended"],
] as const;

/** The filter, the states with their counts, and the choices. */
export function Toolbar({ lines, wanted }: { lines: readonly Line[]; wanted: Wanted }) {
  const counted = matching(lines, wanted);
  const isOpen = useSignal(false);
  const isNarrowed = ["q", "state", "class", "project", "node"].some((name) => query.value.get(name));
  return (
    <div class="row tools" id="choices">
      <input
        class="filter"
        type="search"
        aria-label="Filter jobs"
        placeholder="Filter jobs"
        value={wanted.text}
        onInput={(event) => setQuery({ q: event.currentTarget.value || null })}
      />
      <div class="row" role="group" aria-label="State">
        {STATES.map(([choice, words]) => {
          const count = counted.filter((line) => isIn(choice, line)).length;
          if (!count && choice && wanted.state !== choice) return null;
          return (
            <button key={choice} type="button" class="chip" aria-pressed={wanted.state === choice} onClick={() => setQuery({ state: choice || null })}>
              {words} {number(count, 0)}
            </button>
          );
        })}
      </div>
      <button type="button" class="chip more" aria-expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)}>
        {isOpen.value ? "less" : "more"}
      </button>
      <div class={isOpen.value ? "choices is-open" : "choices"}>
        <Choice name="class" value={wanted.class} values={valuesOf(lines, (line) => [line.job_class])} />
        <Choice name="project" value={wanted.project} values={valuesOf(lines, (line) => [line.project])} />
        <Nodes lines={lines} wanted={wanted} />
        <Select name="group" words="Group by" value={wanted.group ?? ""} options={[["", "no groups"], ...GROUP_NAMES.map((name) => [name, `by ${name}`] as const)]} />
        <Select
          name="sort"
          words="Order"
          value={(wanted.isReversed ? "-" : "") + wanted.sort}
          options={ORDER_WORDS.flatMap(([name, words]) => [
            [name, `order: ${words}`] as const,
            ...(wanted.isReversed && wanted.sort === name ? [[`-${name}`, `order: ${words}, reversed`] as const] : []),
          ])}
          usual="need"
        />
      </div>
      {isNarrowed && (
        <button type="button" class="chip" onClick={() => setQuery({ q: null, state: null, class: null, project: null, node: null })}>
          show all
        </button>
      )}
    </div>
  );
}

/** A choice among the values that jobs have; hidden where all have the same. */
function Choice({ name, value, values }: { name: string; value: string; values: readonly string[] }) {
  if (values.length < 2 && !value) return null;
  const known = value && !values.includes(value) ? [value, ...values] : values;
  return <Select name={name} words={name} value={value} options={[["", `every ${name}`], ...known.map((option) => [option, option] as const)]} />;
}

/** A fleet may have thousands of nodes: a field that completes names. */
function Nodes({ lines, wanted }: { lines: readonly Line[]; wanted: Wanted }) {
  const names = valuesOf(lines, (line) => line.nodes.first);
  if (names.length < 2 && !wanted.node) return null;
  return (
    <>
      <input
        class="node"
        list="node-names"
        aria-label="node"
        placeholder="every node"
        value={wanted.node}
        onChange={(event) => setQuery({ node: event.currentTarget.value.trim() || null })}
      />
      <datalist id="node-names">
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  );
}

interface SelectProps {
  name: string;
  words: string;
  value: string;
  options: readonly (readonly [string, string])[];
  /** The value that the address leaves out. */
  usual?: string;
}

function Select({ name, words, value, options, usual = "" }: SelectProps) {
  return (
    <select aria-label={words} class={name} onChange={(event) => setQuery({ [name]: event.currentTarget.value === usual ? null : event.currentTarget.value })}>
      {options.map(([option, shown]) => (
        <option key={option} value={option} selected={option === value}>
          {shown}
        </option>
      ))}
    </select>
  );
}
