"""The scenes of the demo: proposals and the expected answers. Add new scenes at the end."""

from typing import Final

from safetyd.console.demo.stage import Scene, Stage
from safetyd.operators.contract.hold_contract import (
    ExitCommand,
    ResumeCommand,
    StopCommand,
    UnpauseCommand,
)

Allow: Final = "allow"
Ask: Final = "require_confirmation"
Block: Final = "block"

SECRET: Final = "correct horse battery staple"  # noqa: S105 - the demo's own


async def reading(stage: Stage) -> None:
    await stage.wants("reader", Allow, "read_file", paths=["README.md"])


async def destroying(stage: Stage) -> None:
    await stage.wants("coder", Block, "run_shell", text="rm -rf /")


async def ordering(stage: Stage) -> None:
    target = {"label": "Submit Order", "role": "button", "app": "Chrome", "window": "Shop"}
    await stage.wants("shopper", Ask, "click", target=target)


async def doubting(stage: Stage) -> None:
    await stage.wants("clicker", Ask, "click", target={"label": "Next"}, confidence=0.5)


async def looping(stage: Stage) -> None:
    target = {"label": "Load more"}
    seen = {"window_title": "News", "app_name": "Chrome", "url": "https://news.example/"}
    await stage.wants("looper", Allow, "click", target=target, observation=seen)
    await stage.wants("looper", Allow, "click", target=target, observation=seen)
    await stage.wants("looper", "loop", "click", target=target, observation=seen)


async def typing(stage: Stage) -> None:
    await stage.wants("typist", Ask, "type", text=SECRET, target={"label": "Password"})
    stage.audit_lacks(SECRET)


async def stopping(stage: Stage) -> None:
    await stage.operator(StopCommand(reason="fire drill"))
    await stage.wants("reader", "stopped", "read_file", paths=["README.md"])
    await stage.wants("coder", "stopped", "run_shell", text="ls")
    await stage.operator(ResumeCommand())
    await stage.wants("reader", Allow, "read_file", paths=["README.md"])


async def failing(stage: Stage) -> None:
    await stage.does("tester", "run_tests", error="the disk is on fire")


async def stumbling(stage: Stage) -> None:
    for line in (1, 2, 3):
        await stage.does("editor", "edit_file", text=f"line {line}", error="no space left")
    await stage.wants("editor", "safe_mode", "edit_file", text="line 4")
    await stage.wants("editor", Allow, "read_file", paths=["README.md"])
    await stage.operator(ExitCommand(agent="editor"), refused="cooling_down")
    stage.say("(the cooldown is 60 s by default; 3 s here)")
    await stage.shows("safe-mode", active=True, cooldown_remaining_ms=0)
    await stage.operator(ExitCommand(agent="editor"))
    await stage.wants("editor", Allow, "edit_file", text="line 4")


async def spending(stage: Stage) -> None:
    for page in (1, 2, 3, 4):
        await stage.does("spender", "model_call", text=f"page {page}", chain="book", cost_usd=1.0)
    await stage.hears("COST_WARNING", "spender")
    await stage.wants("spender", "budget", "model_call", text="index", chain="book", cost_usd=1.5)
    await stage.wants("spender", Allow, "model_call", text="title", chain="book", cost_usd=0.5)


async def flapping(stage: Stage) -> None:
    for day in (1, 2, 3, 4, 5):
        asks = f"May {day}"
        await stage.does("caller", "web_fetch", text=asks, dependency="weather", error="timeout")
    await stage.wants("caller", "breaker_open", "web_fetch", text="May 6", dependency="weather")
    await stage.shows("breakers", breaker="weather", state="open")
    stage.say("(the breaker stays open for 30 s by default; 1.5 s here)")
    await stage.shows("breakers", breaker="weather", state="half_open")
    await stage.does("caller", "web_fetch", text="May 6", dependency="weather")
    for day in (7, 8):
        await stage.waits(0.3, "time until the next probe")
        await stage.does("caller", "web_fetch", text=f"May {day}", dependency="weather")
    await stage.does("caller", "web_fetch", text="May 9", dependency="weather")
    await stage.shows("breakers", breaker="weather", state="closed")


async def bursting(stage: Stage) -> None:
    stage.say("(burster has its own limit here: a burst of 5, then 3 a minute)")
    for number in (1, 2, 3, 4, 5):
        await stage.wants("burster", Allow, "read_file", paths=[f"{number}.txt"])
    await stage.wants("burster", "rate_limit", "read_file", paths=["6.txt"])
    await stage.wants("reader", Allow, "read_file", paths=["README.md"])


async def hammering(stage: Stage) -> None:
    stage.say("(the detector rapid_identical is medium by default; high here)")
    for expected in (Allow, Allow, Allow, Allow, "anomaly"):
        await stage.wants("rogue", expected, "edit_file", text="I was here", paths=["index.html"])
    await stage.hears("AGENT_PAUSED", "rogue")
    await stage.wants("rogue", "paused", "read_file", paths=["README.md"])
    await stage.operator(UnpauseCommand(agent="rogue"))
    await stage.wants("rogue", Allow, "read_file", paths=["README.md"])


async def pushing(stage: Stage) -> None:
    await stage.asks(
        "pusher",
        "push",
        text="git push origin main",
        rationale="The tests pass, and the fix is small.",
        context={"branch": "fix-auth", "files_changed": 3, "additions": 42, "deletions": 18},
        rollback="git revert HEAD && git push",
    )
    await stage.shows("log", agent="pusher", action="push")


SCENES: Final[tuple[Scene, ...]] = (
    ("A reader reads a file.", reading),
    ("A coder runs a command that would delete everything.", destroying),
    ("A shopper is about to place an order, which needs approval.", ordering),
    ("A clicker is unsure what is on the screen.", doubting),
    ("A looper clicks the same button three times without effect.", looping),
    ("A typist fills in a password: it needs approval, and the text is not recorded.", typing),
    ("The operator stops all actions, even reading, and resumes.", stopping),
    ("A tester is allowed to act, fails, and reports the error.", failing),
    ("An editor fails three times in a row: in safe mode it can only read.", stumbling),
    ("A spender calls models: the operator is warned, then the budget blocks it.", spending),
    ("A service fails: its circuit breaker opens, then probes it.", flapping),
    ("A burst exceeds the rate limit. Another agent is not affected.", bursting),
    ("A rogue repeats the same edit: it is paused until an operator unpauses it.", hammering),
    ("A pusher wants to push and waits for your approval.", pushing),
)
