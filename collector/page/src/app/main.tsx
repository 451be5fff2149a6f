/** Starts the page. */
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "../theme/theme.css";
import { followAttention } from "../api/attention";
import { followVisibility } from "../api/live";
import { setColours } from "../theme/colours";
import { Frame } from "./frame";
import { followKeys } from "./keys";
import { followLinks } from "./place";
import { knowsPath } from "./views";

setColours(document.documentElement);
followLinks(knowsPath);
followVisibility();
followAttention();
followKeys();
const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  render(<Frame />, root);
}
