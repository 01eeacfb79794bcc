"use strict";
// Replaces the page's content with each event; says so when none has come for a while.
const SILENCE_MS = 15000;
const RETRY_MS = 3000;
const live = document.getElementById("live");
const lost = document.getElementById("lost");
const seen = document.getElementById("seen");
let last = Date.now();
let held = null;

function show(html) {
  // Somebody marks text to copy it: do not pull it away.
  if (!getSelection().isCollapsed) { held = html; return; }
  held = null;
  live.innerHTML = html;
}

function report(isLost) {
  if (isLost && lost.hidden) seen.textContent = new Date(last).toLocaleTimeString();
  lost.hidden = !isLost;
  document.body.classList.toggle("stale", isLost);
}

function listen() {
  const events = new EventSource("/console/events");
  events.onmessage = (event) => { last = Date.now(); report(false); show(event.data); };
  events.onerror = () => {
    report(true);
    // The browser tries again by itself, unless the answer was not a stream.
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, RETRY_MS);
  };
}

document.addEventListener("selectionchange", () => { if (held !== null) show(held); });
setInterval(() => { if (Date.now() - last > SILENCE_MS) report(true); }, 1000);
// Opened from a file there is nothing to listen to.
if (location.protocol.startsWith("http")) listen();
