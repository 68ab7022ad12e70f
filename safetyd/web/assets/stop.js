// STOP: hold for a second, or press Enter twice. Without scripts, a form with a button opens.
// Any answer other than a clear "stopped" is shown as NOT STOPPED.
(() => {
  const HELD_MS = 1000;
  const TWICE_MS = 2000;
  const ANSWERED_MS = 5000;
  let timer = 0;
  let held = null;
  let fired = false; // the button being released has already stopped everything
  let entered = 0;
  const say = (words, kind) =>
    document.dispatchEvent(new CustomEvent("safetyd:say", { detail: { words, kind } }));
  const problem = (answer, said) =>
    answer.status === 401 ? "you are signed out" : said?.why || `unexpected answer (HTTP ${answer.status})`;
  const post = async (form) => {
    const body = new URLSearchParams(new FormData(form));
    const signal = AbortSignal.timeout?.(ANSWERED_MS);
    const headers = { Accept: "application/json" };
    let answer, said;
    try {
      answer = await fetch("/stop", { method: "POST", body, headers, signal, keepalive: true });
      said = await answer.json().catch((error) => { if (signal?.aborted) throw error; });
    } catch {
      return signal?.aborted ? `no answer within ${ANSWERED_MS / 1000} s` : "safetyd cannot be reached";
    }
    if (!answer.ok || !said?.done) return problem(answer, said);
    say(said.said, "done");
    location.assign("/stopped");
    return "";
  };
  const send = async (form) => {
    form.parentElement?.removeAttribute("open"); // it would cover the message
    say("Stopping…", "");
    const failure = await post(form).catch(String);
    if (failure) say(`NOT STOPPED: ${failure}. Run \`safetyd stop\` in a terminal.`, "failed");
  };
  const summary = (event) => event.target.closest?.("details.stop > summary");
  const formOf = (element) => element.parentElement.querySelector("form");
  const end = () => {
    clearTimeout(timer);
    held?.classList.remove("held");
    held = null;
  };
  document.addEventListener("pointerdown", (event) => {
    const element = summary(event);
    if (!element || (event.button ?? 0) !== 0) return;
    end();
    held = element;
    held.classList.add("held");
    fired = false;
    const form = formOf(element); // sent even if the bar changes in the meantime
    timer = setTimeout(() => { end(); fired = true; send(form); }, HELD_MS);
  });
  document.addEventListener("pointermove", ({ clientX: x, clientY: y }) => {
    const box = held?.getBoundingClientRect();
    if (box && (x < box.left || x > box.right || y < box.top || y > box.bottom)) end();
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) document.addEventListener(name, end);
  window.addEventListener("blur", end);
  document.addEventListener("contextmenu", (event) => { if (summary(event)) event.preventDefault(); });
  document.addEventListener("click", (event) => { if (fired && summary(event)) event.preventDefault(); });
  document.addEventListener("keydown", (event) => {
    const element = summary(event);
    if (!element || event.key !== "Enter") return;
    event.preventDefault();
    if (event.repeat) return;
    element.parentElement.open = true;
    if (Date.now() - entered < TWICE_MS) send(formOf(element));
    entered = Date.now();
  });
  document.addEventListener("submit", (event) => {
    if (event.target.getAttribute("action") !== "/stop") return;
    event.preventDefault();
    event.stopPropagation(); // htmx would accept any page as an answer
    send(event.target);
  }, true);
})();
