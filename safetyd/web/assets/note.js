// Messages at the top of the page: results, failures, and why the page is stale.
(() => {
  const UNHEARD = "Not done: no answer from safetyd.";
  const TURNED_AWAY = 429;
  const pieces = (words) => words.split("`").map((part, n) => {
    const piece = document.createElement(n % 2 ? "code" : "span");
    piece.textContent = part;
    return piece;
  });
  const say = (words, kind) => {
    const note = document.createElement("p");
    note.className = `note ${kind}`;
    note.append(...pieces(words));
    if (kind === "failed") note.setAttribute("role", "alert");
    document.getElementById("note").replaceChildren(note);
    if (kind) note.scrollIntoView({ block: "center" });
  };
  document.addEventListener("safetyd:say", ({ detail: { words, kind } }) => say(words, kind));
  document.addEventListener("safetyd:stale", ({ detail }) =>
    document.getElementById("stale")?.replaceChildren(...pieces(detail)));
  const unheard = () => say(UNHEARD, "failed");
  document.addEventListener("htmx:sendError", unheard);
  document.addEventListener("htmx:timeout", unheard);
  document.addEventListener("htmx:beforeSwap", (event) => {
    const status = event.detail.xhr?.status ?? 0;
    if (status !== TURNED_AWAY && status < 500) return;
    event.detail.shouldSwap = false;
    unheard();
  });
})();
