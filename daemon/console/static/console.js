// Keeps the page "Live" current, and reads a file of candidate ACLs into the form of "What if".
// Every page is complete without this script.
// Invariant: it shows only what the console itself has rendered; text never becomes code.
"use strict";
const REFRESH_MS = 2000;

function start(live) {
  const button = document.getElementById("pause");
  const note = document.getElementById("refresh");
  let timer = null;

  function show() {
    const isRunning = timer !== null;
    button.textContent = isRunning ? "Pause" : "Continue";
    note.textContent = isRunning ? `Refreshed every ${REFRESH_MS / 1000} s` : "Paused";
  }

  async function refresh() {
    try {
      const response = await fetch(location.pathname, { cache: "no-store" });
      if (response.status === 401) {
        location.reload();
        return;
      }
      if (!response.ok) throw new Error(`status ${response.status}`);
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const fresh = page.getElementById("live");
      if (fresh !== null && timer !== null && !live.contains(document.activeElement)) {
        fresh.querySelector("details").open = live.querySelector("details").open;
        live.replaceChildren(...document.importNode(fresh, true).childNodes);
      }
      if (timer !== null) show();
    } catch (error) {
      note.textContent = `Not refreshed: ${error.message}`;
    }
    if (timer !== null) timer = setTimeout(refresh, REFRESH_MS);
  }

  button.addEventListener("click", () => {
    if (timer === null) {
      timer = setTimeout(refresh, 0);
    } else {
      clearTimeout(timer);
      timer = null;
    }
    show();
  });
  button.hidden = false;
  timer = setTimeout(refresh, REFRESH_MS);
  show();
}

const live = document.getElementById("live");
if (live !== null) start(live);

const upload = document.getElementById("upload");
if (upload !== null) {
  upload.parentElement.hidden = false;
  upload.addEventListener("change", async () => {
    if (upload.files.length) document.getElementById("acls").value = await upload.files[0].text();
  });
}
