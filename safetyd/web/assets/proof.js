// Sends the proof, a secret that the browser stores for this origin only. Commands that permit something need it.
document.addEventListener("htmx:configRequest", (event) => {
  event.detail.headers["X-Safetyd-Proof"] = localStorage.getItem("safetyd-proof") ?? "";
});
