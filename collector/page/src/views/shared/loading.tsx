/** What stands in place of an answer that is not there. */
import type { ComponentChildren } from "preact";
import type { Answer } from "../../api/answer";

interface LoadedProps<T> {
  answer: Answer<T>;
  /** The page's heading until the answer brings its own. */
  heading?: string;
  children: (value: T) => ComponentChildren;
}

/** Shows the answer, or says that it loads or why it failed; an old answer stays, faded. */
export function Loaded<T>({ answer, heading, children }: LoadedProps<T>) {
  if (answer.value === null) {
    return (
      <div class="stack">
        {heading && <h1>{heading}</h1>}
        {answer.failure ? (
          <p class="notice" role="alert">
            {answer.failure.message}
          </p>
        ) : (
          <p class="quiet" aria-busy="true">
            Loading.
          </p>
        )}
      </div>
    );
  }
  return (
    <div class={answer.failure ? "stack outdated" : "stack"}>
      {answer.failure && <p class="notice">No new data: {answer.failure.message}.</p>}
      {children(answer.value)}
    </div>
  );
}
