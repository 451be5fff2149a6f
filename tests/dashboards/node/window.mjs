// What @grafana/data expects of a browser, from jsdom; to be imported before it.
// Packages lie where `toolchain.py` puts them, which is where node is started.
import { createRequire } from "module";

export const require = createRequire(`${process.cwd()}/package.json`);
const { JSDOM } = require("jsdom");
const { window } = new JSDOM("<!doctype html>", { url: "http://localhost/" });
window.matchMedia = () => ({ matches: false, addEventListener() {} });
for (const name of ["document", "navigator", "DOMParser", "Node", "Element", "HTMLElement", "location", "localStorage"]) {
  if (!(name in globalThis)) globalThis[name] = window[name];
}
globalThis.window = window;
