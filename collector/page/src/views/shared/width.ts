/** The width of an element. */
import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";

const BEFORE_FIRST = 800;

/** Returns the width in CSS pixels, and renders again as it changes. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(BEFORE_FIRST);
  useEffect(() => {
    const target = element.current;
    if (!target) return;
    const resized = new ResizeObserver(() => setWidth(target.clientWidth));
    resized.observe(target);
    return () => resized.disconnect();
  }, []);
  return width;
}
