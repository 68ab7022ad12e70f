// Pauses the feed; new rows appear when it continues.
(() => {
  document.addEventListener("click", (event) => {
    const pressed = event.target.closest?.("[data-pause]");
    if (!pressed) return;
    const now = pressed.getAttribute("aria-pressed") !== "true";
    pressed.setAttribute("aria-pressed", String(now));
    pressed.textContent = now ? "Continue" : "Pause";
    if (!now) htmx.ajax("GET", location.href, { target: "body", swap: "innerHTML" });
  });
})();
