// Shows times in the reader's zone and updates countdowns every second.
(() => {
  const unit = (s) => {
    const steps = [[86400, "d"], [3600, "h"], [60, "min"]];
    for (const [size, name] of steps) if (s >= size) return `${Math.floor(s / size)} ${name}`;
    return `${Math.max(0, Math.floor(s))} s`;
  };
  // As in messages and terminals: `duration` of time_words.py.
  const rounded = (s) => {
    const steps = [[1, "s", 60], [60, "min", 60], [3600, "h", 48], [86400, "d", Infinity]];
    const [size, name] = steps.find(([size, , most]) => Math.round(s / size) < most);
    return `${Math.max(0, Math.round(s / size))} ${name}`;
  };
  // In the last hour a countdown shows seconds.
  const left = (s) => s >= 60 && s < 3600 ? `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s` : rounded(s);
  const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const text = (element, now) => {
    const at = new Date(element.dateTime);
    if (element.dataset.as === "ago") return `${unit((now - at) / 1000)} ago`;
    if (element.dataset.as === "left") return `${left((at - now) / 1000)} left`;
    const today = at.toDateString() === new Date(now).toDateString();
    const said = today ? clock.format(at) : `${day.format(at)} ${clock.format(at)}`;
    return element.dataset.as === "deadline" ? `${rounded((at - now) / 1000)} left, until ${said}.` : said;
  };
  const show = (root, some) => {
    const now = Date.now();
    for (const element of root.querySelectorAll(some)) {
      const wanted = text(element, now);
      if (element.textContent !== wanted) element.textContent = wanted;
    }
  };
  // One swap fires many events; the times are updated once.
  let due = false;
  const all = () => {
    if (due) return;
    due = true;
    queueMicrotask(() => { due = false; show(document, "time[data-as]"); });
  };
  document.addEventListener("DOMContentLoaded", all);
  document.addEventListener("htmx:afterSwap", all);
  document.addEventListener("htmx:load", all);
  document.addEventListener("safetyd:shown", (event) => show(event.detail, "time[data-as]"));
  setInterval(() => show(document, "time[data-as]:not([data-as=at])"), 1000);
})();
