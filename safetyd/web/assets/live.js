// Keeps a page live: what a reader typed or opened stays, and data that is not fresh turns grey.
(() => {
  document.documentElement.classList.add("scripted");
  const FRESH_MS = 2500;
  const POLL_MS = 3000;
  const TYPE = "At a terminal, `safetyd status` says why and `safetyd stop` stops everything.";
  let heard = Date.now();
  let lasts = FRESH_MS;
  const kept = (name, node) =>
    (["value", "checked"].includes(name) && node.matches("input:not([type=hidden]), textarea, select")) ||
    (name === "selected" && node.matches("option")) ||
    (name === "open" && node.matches("details, dialog"));
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !kept(name, node);
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, fresh) =>
    !(old.dataset?.series && old.dataset.series === fresh.dataset?.series) &&
    !(old.tagName === "TIME" && old.dateTime === fresh.dateTime);

  const put = (id, html) => {
    const part = document.getElementById(id);
    const held = id === "main" && document.querySelector("[data-pause][aria-pressed=true]");
    if (!part || held) return;
    const swapStyle = id === "title" ? "innerHTML" : "morph:innerHTML"; // words alone cannot be morphed
    htmx.swap(part, html, { swapStyle }, { contextElement: part });
    title();
  };
  // One stream for the page that is shown: the one of the page before it ends.
  let stream;
  htmx.createEventSource = (url) => {
    stream?.close();
    stream = new EventSource(url);
    stream.addEventListener("beat", (event) => {
      document.getElementById("beat").textContent = event.data;
      fresh(FRESH_MS);
    });
    // Not by sse-swap: parts outlive their stream where a link inside of them was followed.
    for (const id of ["bar", "main", "title"]) stream.addEventListener(id, (event) => put(id, event.data));
    stream.addEventListener("rows", ({ data }) =>
      document.dispatchEvent(new CustomEvent("safetyd:rows", { detail: data })));
    return stream;
  };

  const since = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const show = () => {
    const stale = Date.now() - heard > lasts;
    document.body.classList.toggle("stale", stale);
    const line = document.getElementById("stale");
    if (!line || line.hidden === !stale) return;
    line.hidden = !stale;
    line.textContent = stale ? `Not live since ${since.format(heard)}: what you see may be old. ${TYPE}` : "";
  };
  const fresh = (ms) => { heard = Date.now(); lasts = ms; show(); };
  const title = () => {
    const shown = document.getElementById("title")?.textContent.trim();
    const count = document.querySelector("#bar .pending.some")?.textContent.match(/\d+/);
    if (shown) document.title = `${count ? `(${count}) ` : ""}${shown} · safetyd`;
  };
  document.addEventListener("htmx:sseOpen", () => fresh(FRESH_MS));
  document.addEventListener("htmx:afterSwap", title);

  // Where the stream is not to be had, the page is asked for instead.
  const poll = async () => {
    if (Date.now() - heard < FRESH_MS || document.hidden) return;
    const before = heard;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (heard !== before) return; // the stream is back, and what it says is newer
      for (const part of page.querySelectorAll("#bar, #main")) put(part.id, part.innerHTML);
      fresh(POLL_MS + 1000);
    } catch { lasts = 0; /* it is grey */ }
  };
  setInterval(show, 500);
  setInterval(poll, POLL_MS);

  // What permits something needs what this origin alone keeps.
  document.addEventListener("htmx:configRequest", (event) => {
    event.detail.headers["X-Safetyd-Proof"] = localStorage.getItem("safetyd-proof") ?? "";
  });
})();
