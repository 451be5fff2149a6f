/** A command with a button that copies it. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

const COPIED_MS = 2_000;

/** Shows a command, or several lines of them. */
export function Command({ text }: { text: string }) {
  return (
    <div class="copied-command">
      <code class="command">{words(text)}</code>
      <CopyButton label="Copy" refused="Select it to copy" text={() => text} />
    </div>
  );
}

interface CopyButtonProps {
  label: string;
  /** The words where the browser does not allow copying. */
  refused: string;
  text: () => string;
}

/** A button that copies a text, and says for a while that it did. */
export function CopyButton({ label, refused, text }: CopyButtonProps) {
  const shown = useSignal(label);
  useEffect(() => {
    if (shown.value === label) return;
    const timer = setTimeout(() => (shown.value = label), COPIED_MS);
    return () => clearTimeout(timer);
  }, [shown.value]);
  return (
    <button type="button" class="chip" onClick={() => void copyText(text()).then((done) => (shown.value = done ? "Copied" : refused))}>
      {shown.value}
    </button>
  );
}

/** Broken between words only: an option cut at its hyphens reads as another one. */
const words = (text: string) =>
  text.split(/(\s+)/).map((part, index) =>
    index % 2 ? (
      part
    ) : (
      <span key={index} class="word">
        {part}
      </span>
    ),
  );

/** Copies text; false where the browser does not allow it, as on a page without TLS. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

function copySelected(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
