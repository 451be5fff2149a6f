/** The title of the tab. */
import { useEffect } from "preact/hooks";

/** Sets the title: the count of open incidents comes first. */
export function useTitle(words: string, openIncidents: number | null | undefined): void {
  useEffect(() => {
    document.title = `${openIncidents ? `(${openIncidents}) ` : ""}${words} · stepwatch`;
  }, [words, openIncidents]);
}
