// The feed: adds new rows at the top, and removes the oldest rows if there are too many.
(() => {
  const trim = (list) => {
    const most = Number(list.dataset.most);
    if (list.rows.length <= most) return;
    let last = list.rows[most - 1];
    if (last.className === "gap") last = last.previousElementSibling;
    while (last.nextSibling) last.nextSibling.remove();
    const older = document.getElementById("older");
    const to = new URL(older.firstElementChild.href);
    to.searchParams.set("before", last.id.slice("seq-".length));
    older.firstElementChild.href = to;
    older.hidden = false;
  };
  document.addEventListener("safetyd:rows", (event) => {
    const list = document.querySelector("tbody[data-most]");
    if (!list || document.querySelector("[data-pause][aria-pressed=true]")) return;
    const page = new DOMParser().parseFromString(`<table>${event.detail}</table>`, "text/html");
    document.dispatchEvent(new CustomEvent("safetyd:shown", { detail: page }));
    list.prepend(...page.querySelectorAll("tr"));
    trim(list);
  });
  // htmx processes the links of a row only when the row is clicked, because most rows are removed unclicked.
  document.addEventListener("click", (event) => {
    const row = event.target.closest?.("tbody[data-most] > tr");
    if (row) htmx.process(row);
  }, true);
})();
