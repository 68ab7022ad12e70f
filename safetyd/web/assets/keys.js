// Keys: j and k move, a, d and g answer the open request, x selects a request, ? shows the list of keys. Also:
// "Select all", filters that are submitted when they change, and scrolling to the open row.
(() => {
  const typing = (element) => element.closest?.("input, textarea, select, [contenteditable]");
  const rows = () => [...document.querySelectorAll("[data-rows] a")];
  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const focused = all.indexOf(document.activeElement);
    const here = focused >= 0 ? focused : all.findIndex((row) => row.getAttribute("aria-current"));
    const next = all[Math.min(Math.max(here + step, 0), all.length - 1)];
    next.focus();
    if (document.querySelector("[data-rows='open']")) next.click();
  };
  const say = (words) => document.dispatchEvent(new CustomEvent("safetyd:say", { detail: { words, kind: "" } }));
  const press = (key) => {
    const found = document.querySelector(`[data-key~="${key}"]`);
    if (!found) {
      say(document.getElementById("keys").dataset.nothing);
    } else if (found.tagName === "P") {
      say(found.textContent);  // why the key does nothing here
    } else if (found.tagName === "DETAILS") {
      found.open = true;
      found.querySelector("input, button").focus();
    } else if (key === "a" && document.activeElement !== found) {
      found.focus();  // Enter or the same key again approves
    } else {
      found.click();
    }
  };
  const select = () => {
    const row = document.activeElement.closest?.("li") ?? document.querySelector("li.open");
    row?.querySelector("input[type=checkbox]")?.click();
  };
  const boxes = () => [...document.querySelectorAll("form[data-several] input[name=id]")];
  const together = () => {
    const all = document.querySelector("[data-all]");
    if (all) all.checked = boxes().every((box) => box.checked);
  };
  document.addEventListener("change", (event) => {
    if (event.target.matches?.("[data-all]")) boxes().forEach((box) => { box.checked = event.target.checked; });
    together();
  });
  document.addEventListener("htmx:afterSwap", () => together());
  document.addEventListener("change", (event) => { if (event.target.matches?.("[data-sends]")) event.target.form.requestSubmit(); });
  const inSight = () => {
    const row = document.querySelector("[data-rows='open'] li.open");
    const list = row?.closest("section");
    if (!list || list.opened === row.id) return;
    list.opened = row.id;
    list.scrollTop = row.offsetTop - list.clientHeight / 3;
    // The link that led here now leads to another part of the list.
    if (document.activeElement.closest(".beyond")) row.querySelector("a").focus({ preventScroll: true });
  };
  document.addEventListener("DOMContentLoaded", inSight);
  document.addEventListener("htmx:afterSettle", inSight);
  const actions = {
    j: () => move(1),
    k: () => move(-1),
    a: () => press("a"),
    d: () => press("d"),
    g: () => press("g"),
    x: select,
    "/": () => document.querySelector("[data-filter]")?.focus(),
    "?": () => document.getElementById("keys").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (typing(event.target) || document.querySelector("dialog[open]")) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
})();
