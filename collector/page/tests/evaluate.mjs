// Words values for a test in another language: JSON lines of [function, ...arguments] in, words out.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const SOURCE = join(dirname(fileURLToPath(import.meta.url)), "../src/words/quantities.ts");
const bundled = await build({ entryPoints: [SOURCE], bundle: true, format: "esm", write: false });
const words = await import(`data:text/javascript;base64,${Buffer.from(bundled.outputFiles[0].contents).toString("base64")}`);
const calls = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(calls.map(([name, ...values]) => words[name](...values))));
