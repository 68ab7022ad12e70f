// Receives updates of the page over a WebSocket. Browsers open only six HTTP connections to a host: event
// streams in six tabs would leave none for STOP.
(() => {
  const RETRY_MS = 1000;
  const RETRY_MOST_MS = 5000;
  let socket;
  let wait = RETRY_MS;
  const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));
  const received = ({ data }) => {
    const end = data.indexOf("\n");
    tell("safetyd:part", { name: data.slice(0, end), html: data.slice(end + 1) });
  };
  const open = (room) => {
    socket?.close();
    if (!room) return;
    const opened = new WebSocket(`${location.origin.replace(/^http/, "ws")}${room.dataset.live}`);
    socket = opened;
    opened.addEventListener("open", () => { wait = RETRY_MS; });
    opened.addEventListener("message", (event) => { if (socket === opened) received(event); });
    opened.addEventListener("close", () => {
      if (socket === opened) tell("safetyd:lost");
      setTimeout(() => { if (socket === opened) open(document.getElementById("room")); }, wait);
      wait = Math.min(2 * wait, RETRY_MOST_MS);
    });
  };
  // A page that was just loaded or swapped in is not marked yet. It gets a new stream, so that it does not
  // receive rows twice.
  const join = () => {
    const room = document.getElementById("room");
    if (room && "joined" in room.dataset) return;
    if (room) room.dataset.joined = "";
    open(room);
  };
  document.addEventListener("DOMContentLoaded", join);
  document.addEventListener("htmx:afterSettle", join);
})();
