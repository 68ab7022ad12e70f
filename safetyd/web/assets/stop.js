// STOP: held for a second, or Enter twice. Without scripts it opens a form with a button.
(() => {
  const HELD_MS = 1000;
  const TWICE_MS = 2000;
  let timer = 0;
  let entered = 0;
  const summary = (event) => event.target.closest?.("details.stop > summary");
  const send = (element) => element.parentElement.querySelector("form").requestSubmit();
  const begin = (event) => {
    const element = summary(event);
    if (!element || (event.button ?? 0) !== 0) return;
    element.classList.add("held");
    timer = setTimeout(() => { element.classList.remove("held"); send(element); }, HELD_MS);
  };
  const end = () => {
    clearTimeout(timer);
    document.querySelector(".stop .held")?.classList.remove("held");
  };
  document.addEventListener("pointerdown", begin);
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) document.addEventListener(name, end);
  document.addEventListener("contextmenu", (event) => { if (summary(event)) event.preventDefault(); });
  document.addEventListener("keydown", (event) => {
    const element = summary(event);
    if (!element || event.key !== "Enter") return;
    event.preventDefault();
    if (event.repeat) return;
    if (Date.now() - entered < TWICE_MS) send(element);
    entered = Date.now();
    element.parentElement.open = true;
  });
})();
