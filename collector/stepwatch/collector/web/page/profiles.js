"use strict";
// A job's profiles: what each comparison shows, and both traces for Perfetto.

const PERFETTO = "https://ui.perfetto.dev";
const TRACE_WITHIN_MS = 120000;
const PERFETTO_WITHIN_MS = 60000;
const PROFILES_EVERY_MS = 10000;
const MOST_PROFILES = 10;
let profilesRead = -Infinity, profilesUnknown = false;

const tracePath = (profile, rank) => "/v1/profiles/" + encodeURIComponent(profile.id) + "/traces/" + rank;
const traceName = (profile, rank) => profile.id + "-rank" + rank + ".json.gz";
const readTrace = async (profile, rank) => (await getAnswer(tracePath(profile, rank), TRACE_WITHIN_MS)).arrayBuffer();

function noteOfProfiles(text) {
  const note = document.getElementById("profiles-note");
  note.hidden = !text;
  note.textContent = text;
}

// A link carries no token: with one, the script reads the trace and saves it.
function downloadLink(profile, rank, size) {
  const name = traceName(profile, rank);
  return element("a", { href: tracePath(profile, rank), download: name, textContent: "rank " + rank + " (" + bytes(size) + ")",
    onclick: (event) => {
      if (!storedToken()) return;
      event.preventDefault();
      readTrace(profile, rank).then((trace) => {
        const address = URL.createObjectURL(new Blob([trace], { type: "application/gzip" }));
        element("a", { href: address, download: name }).click();
        setTimeout(() => URL.revokeObjectURL(address), 60000);
      }).catch((error) => noteOfProfiles("The trace of rank " + rank + " was not read: " + error.message));
    } });
}

// The documented way: https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui. The window gets no message before its
// page is loaded, so it is asked until it answers.
async function sendToPerfetto(opened, profile, rank) {
  const ready = new Promise((resolve, reject) => {
    const asking = setInterval(() => opened.postMessage("PING", PERFETTO), 250);
    const ended = (act, result) => { clearInterval(asking); clearTimeout(late); removeEventListener("message", hear); act(result); };
    const late = setTimeout(() => ended(reject, new Error("ui.perfetto.dev did not answer")), PERFETTO_WITHIN_MS);
    const hear = (event) => {
      if (event.source === opened && event.origin === PERFETTO && event.data === "PONG") ended(resolve);
    };
    addEventListener("message", hear);
  });
  const [buffer] = await Promise.all([readTrace(profile, rank), ready]);
  const title = profile.job + ", rank " + rank + ", profile " + profile.id;
  opened.postMessage({ perfetto: { buffer, title, fileName: traceName(profile, rank) } }, PERFETTO);
}

function perfettoButton(profile, rank) {
  return element("button", { type: "button", textContent: "open in Perfetto", onclick: () => {
    noteOfProfiles("");
    const opened = window.open(PERFETTO);
    if (!opened) { noteOfProfiles("The browser did not open a window: allow it, or download the trace."); return; }
    sendToPerfetto(opened, profile, rank).catch((error) =>
      noteOfProfiles("The trace of rank " + rank + " is not in Perfetto: " + error.message + ". Download it, and open it there."));
  } });
}

function traceCell(profile) {
  return element("span", {}, ...profile.traces.flatMap((trace, index) => [index ? element("br") : "",
    ...(trace.bytes ? [downloadLink(profile, trace.rank, trace.bytes), " ", perfettoButton(profile, trace.rank)]
      : ["rank " + trace.rank + ": " + (trace.reason || "no longer kept")])]));
}

function profileRow(profile) {
  return row(clock(profile.requested_at) + (profile.by ? ", " + profile.by : ""), profile.rank + " and " + profile.peer,
    profile.first_step + "-" + (profile.first_step + profile.steps - 1),
    element("span", {}, state(profile.state), profile.sentence ? " " + profile.sentence : ""), traceCell(profile));
}

// A profile changes seldom, and its document is long: it is read less often than the page is drawn. It comes from the store; while
// that does not answer, the rest of the page is still current.
async function showProfiles(base) {
  if (Date.now() - profilesRead < PROFILES_EVERY_MS) return;
  profilesRead = Date.now();
  let profiles;
  try {
    profiles = (await getJson(base + "/profiles")).profiles;
  } catch (error) {
    profilesUnknown = true;
    noteOfProfiles("Newer profiles are not known: " + error.message);
    return;
  }
  if (profilesUnknown) noteOfProfiles(""); // a note on a trace stays
  profilesUnknown = false;
  document.getElementById("profiles-section").hidden = !profiles.length;
  document.querySelector("#profiles tbody").replaceChildren(...profiles.slice(0, MOST_PROFILES).map(profileRow));
}
