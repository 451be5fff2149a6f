/** What stands in place of an answer that is not there. */
import type { ComponentChildren } from "preact";
import type { Answer } from "../../api/answer";

/** Shows the answer, or says that it loads or why it failed; an old answer stays, faded. */
export function Loaded<T>({ answer, children }: { answer: Answer<T>; children: (value: T) => ComponentChildren }) {
  if (answer.value === null) {
    return answer.failure ? (
      <p class="notice" role="alert">
        {answer.failure.message}
      </p>
    ) : (
      <p class="quiet" aria-busy="true">
        Loading.
      </p>
    );
  }
  return (
    <div class={answer.failure ? "stack outdated" : "stack"}>
      {answer.failure && <p class="notice">No new data: {answer.failure.message}.</p>}
      {children(answer.value)}
    </div>
  );
}
