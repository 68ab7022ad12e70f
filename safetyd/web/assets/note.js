// The note at the top: what a key could not do, and what nobody heard.
(() => {
  const UNHEARD = "Not done: nobody answered.";
  const NOT_STOPPED = "NOT STOPPED: nobody heard it. Type `safetyd stop` at a terminal.";
  const TURNED_AWAY = 429;
  const ANSWERED_MS = 5000;
  const say = (words, kind) => {
    const note = document.createElement("p");
    note.className = `note ${kind}`;
    words.split("`").forEach((part, n) => {
      const piece = document.createElement(n % 2 ? "code" : "span");
      piece.textContent = part;
      note.append(piece);
    });
    document.getElementById("note").replaceChildren(note);
    return note;
  };
  document.addEventListener("safetyd:say", (event) => say(event.detail, ""));
  const stops = (element) => element?.closest("form[action='/stop']");
  const unheard = (event) => {
    const note = say(stops(event.detail.elt) ? NOT_STOPPED : UNHEARD, "unheard");
    note.setAttribute("role", "alert");
    note.scrollIntoView({ block: "center" });
  };
  document.addEventListener("htmx:beforeSend", (event) => {
    if (stops(event.detail.elt)) event.detail.xhr.timeout = ANSWERED_MS;
  });
  document.addEventListener("htmx:sendError", unheard);
  document.addEventListener("htmx:timeout", unheard);
  document.addEventListener("htmx:beforeSwap", (event) => {
    const status = event.detail.xhr?.status ?? 0;
    if (status !== TURNED_AWAY && status < 500) return;
    event.detail.shouldSwap = false;
    unheard({ detail: event.detail.requestConfig });
  });
})();
