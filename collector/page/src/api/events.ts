/** The framing of server-sent events, read from a stream: EventSource cannot send a token. */

/** One event. */
export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

/**
 * Splits text that arrives in pieces into events. `push` returns those that are complete; a comment
 * is none.
 */
export class EventReader {
  private rest = "";
  private id = "";

  push(text: string): ServerEvent[] {
    const blocks = (this.rest + text.replaceAll("\r\n", "\n")).split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.flatMap((block) => this.parsed(block));
  }

  private parsed(block: string): ServerEvent[] {
    let event = "message";
    const data: string[] = [];
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "id") this.id = value;
      else if (field === "event") event = value;
      else if (field === "data") data.push(value);
    }
    return data.length ? [{ id: this.id, event, data: data.join("\n") }] : [];
  }
}
