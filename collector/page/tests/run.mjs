// Bundles the unit tests and runs them with node's own test runner: `node tests/run.mjs`.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "stepwatch-page-"));
try {
  await build({
    entryPoints: readdirSync(HERE).filter((name) => name.endsWith(".test.ts")).map((name) => join(HERE, name)),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
  });
  process.exitCode = spawnSync(process.execPath, ["--test", folder], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
