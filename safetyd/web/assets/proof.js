// Sends the proof that only this origin stores. Commands that permit something need it.
document.addEventListener("htmx:configRequest", (event) => {
  event.detail.headers["X-Safetyd-Proof"] = localStorage.getItem("safetyd-proof") ?? "";
});
