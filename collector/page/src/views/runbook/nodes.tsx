/** Draws a runbook's tree: no HTML is made from text. */
import type { ComponentChildren } from "preact";
import type { Schemas } from "../../api/types";
import { Command } from "../shared/command";

type Node = Schemas["RunbookNode"];

/** Parts of a runbook, one after the other. */
export function Nodes({ nodes }: { nodes: readonly Node[] }) {
  return (
    <>
      {nodes.map((node, index) => (
        <One key={index} node={node} />
      ))}
    </>
  );
}

function One({ node }: { node: Node }) {
  const parts: ComponentChildren = <Nodes nodes={node.parts} />;
  switch (node.kind) {
    case "text":
      return <>{node.text}</>;
    case "word":
      return <code>{node.text}</code>;
    case "code":
      return <Command text={node.text.trimEnd()} />;
    case "strong":
      return <strong>{parts}</strong>;
    case "emphasis":
      return <em>{parts}</em>;
    case "link":
      return (
        <a href={node.href} rel="noopener noreferrer">
          {parts}
        </a>
      );
    case "list":
      return <ul>{parts}</ul>;
    case "steps":
      return <ol>{parts}</ol>;
    case "item":
      return <li>{parts}</li>;
    case "quote":
      return <blockquote>{parts}</blockquote>;
    case "heading":
      return <h3>{parts}</h3>;
    case "hr":
      return <hr />;
    case "paragraph":
      return <p>{parts}</p>;
  }
}
