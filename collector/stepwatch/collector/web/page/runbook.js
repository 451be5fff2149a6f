"use strict";

const name = decodeURIComponent(location.pathname.split("/").pop());

// The collector escapes raw HTML; inserting what it made is safe.
async function loadRunbook() {
  const found = await getJson("/v1/runbooks/" + encodeURIComponent(name) + location.search);
  document.title = "stepwatch: " + found.name;
  document.getElementById("page").innerHTML = found.html;
  const whose = document.getElementById("whose");
  if (found.incident === null) whose.textContent = "No incident chosen: fill in the values in <angle brackets>.";
  else whose.replaceChildren("Filled in for incident " + found.incident + " of ",
    element("a", { href: "/jobs/" + encodeURIComponent(found.job), textContent: found.job }));
}

keepFresh(loadRunbook, 15000);
