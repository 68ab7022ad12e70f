// Lets a reader hold a list still: what is new comes when it goes on.
(() => {
  const button = () => document.querySelector("[data-pause]");
  const held = () => button()?.getAttribute("aria-pressed") === "true";
  document.addEventListener("click", (event) => {
    const pressed = event.target.closest?.("[data-pause]");
    if (!pressed) return;
    const now = pressed.getAttribute("aria-pressed") !== "true";
    pressed.setAttribute("aria-pressed", String(now));
    pressed.textContent = now ? "Go on" : "Pause";
    if (!now) htmx.ajax("GET", location.href, { target: "body", swap: "innerHTML" });
  });
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (event.target.id === "main" && held()) event.preventDefault();
  });
})();
