// Bundles the page: `node build.mjs FOLDER` writes index.html, one script and one style sheet with
// the digest of their bytes in their names, their gzipped copies, and the licences of what is inside.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2];
if (!folder) {
  console.error("usage: node build.mjs FOLDER");
  process.exit(2);
}

const bundled = await build({
  absWorkingDir: HERE,
  entryPoints: { app: "src/app/main.tsx" },
  outdir: folder,
  entryNames: "[name]-[hash]",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  write: false,
});

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const names = {};
for (const file of bundled.outputFiles) {
  const name = file.path.slice(file.path.lastIndexOf("/") + 1);
  names[name.slice(name.lastIndexOf(".") + 1)] = name;
  writeFileSync(join(folder, name), file.contents);
  // Level 9 and no time stamp: the same sources give the same bytes.
  writeFileSync(join(folder, `${name}.gz`), gzipSync(file.contents, { level: 9 }));
}
const index = readFileSync(join(HERE, "src/app/index.html"), "utf8")
  .replace("app.js", names.js)
  .replace("app.css", names.css);
writeFileSync(join(folder, "index.html"), index);
writeFileSync(join(folder, "licenses.txt"), licences(Object.keys(bundled.metafile.inputs)));

function licences(inputs) {
  const found = inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
  const packages = [...new Set(found.filter(Boolean))].sort();
  return packages.map((name) => `${name}\n\n${licence(name)}`).join("\n\n---\n\n");
}

function licence(name) {
  const place = join(HERE, "node_modules", name);
  for (const file of ["LICENSE", "LICENSE.md", "license"]) {
    try {
      return readFileSync(join(place, file), "utf8").trim();
    } catch (error) {
      if (error.code !== "ENOENT") throw error;
    }
  }
  throw new Error(`${name} has no licence file`);
}
