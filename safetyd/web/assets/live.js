// Updates the open page and preserves what the reader typed or opened; stale data turns grey.
(() => {
  document.documentElement.classList.add("scripted");
  const FRESH_MS = 2500;
  const POLL_MS = 3000;
  const TYPE = "In a terminal, `safetyd status` shows why and `safetyd stop` stops everything.";
  const SIGNED_OUT = "You are signed out: STOP does not work on this page. In a terminal, `safetyd stop` stops " +
    "everything and `safetyd open` signs you in.";
  let heard = Date.now();
  let lasts = FRESH_MS;
  let signedOut = false;
  const kept = (name, node) =>
    (["value", "checked"].includes(name) && node.matches("input:not([type=hidden]), textarea, select")) ||
    (name === "class" && node.matches(".held")) ||
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
    const swapStyle = id === "title" ? "innerHTML" : "morph:innerHTML"; // plain text cannot be morphed
    htmx.swap(part, html, { swapStyle }, { contextElement: part });
    title();
  };
  document.addEventListener("safetyd:part", ({ detail: { name, html } }) => {
    fresh(FRESH_MS);
    if (name === "beat") document.getElementById("beat").textContent = html;
    else if (name === "rows") document.dispatchEvent(new CustomEvent("safetyd:rows", { detail: html }));
    else put(name, html);
  });

  const since = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const show = () => {
    const stale = Date.now() - heard > lasts;
    document.body.classList.toggle("stale", stale);
    const line = document.getElementById("stale");
    const old = `No connection since ${since.format(heard)}: this page may be out of date. ${TYPE}`;
    const words = stale ? signedOut ? SIGNED_OUT : old : "";
    if (!line || (line.dataset.words ?? "") === words) return;
    line.hidden = !stale;
    line.dataset.words = words;
    document.dispatchEvent(new CustomEvent("safetyd:stale", { detail: words }));
  };
  const fresh = (ms) => { heard = Date.now(); lasts = ms; signedOut = false; show(); };
  const title = () => {
    const shown = document.getElementById("title")?.textContent.trim();
    const count = document.querySelector("#bar .pending.some")?.textContent.match(/[\d,]*\d/);
    if (shown) document.title = `${count ? `(${count}) ` : ""}${shown} · safetyd`;
  };
  document.addEventListener("htmx:afterSwap", ({ detail }) => {
    title();
    // A page that was just opened is fresh, even if its stream has sent nothing yet.
    if (detail.xhr?.status === 200 && document.getElementById("bar")) fresh(FRESH_MS);
  });

  // Without the stream, the page is polled.
  const poll = async (lost) => {
    if ((!lost && Date.now() - heard < FRESH_MS) || document.hidden) return;
    const before = heard;
    const signal = AbortSignal.timeout?.(POLL_MS - 1000); // a hanging request must not take a connection from STOP
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (heard !== before) return; // the stream is back and newer
      signedOut = answer.status === 401 || (answer.ok && !page.getElementById("bar"));
      if (signedOut || !answer.ok) throw new Error("not live");
      for (const part of page.querySelectorAll("#bar, #main")) put(part.id, part.innerHTML);
      fresh(POLL_MS + 1000);
    } catch { lasts = 0; /* shown as stale */ }
  };
  setInterval(show, 500);
  setInterval(poll, POLL_MS);
  document.addEventListener("safetyd:lost", poll);
})();
