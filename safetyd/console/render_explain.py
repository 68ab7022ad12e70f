"""The account of one proposal: what was asked, which guards restricted it, what was answered."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from safetyd.console.plain import document, plain
from safetyd.console.render import indented, when

View = Mapping[str, Any]

_SAID: Final = {
    "allow": "allowed",
    "require_confirmation": "needs a person",
    "block": "blocked",
}
_WITHHELD: Final = {
    "stopped": "everything was stopped before it left",
    "late": "writing it down took too long",
}
_FIRST: Final = ("type", "text", "description", "rationale")


def account(view: View) -> str:
    lines = [f"Proposal {plain(view['id'])}"]
    for decided in view["decisions"]:
        lines += ["", *_decided(decided)]
    for outcome in view.get("outcomes", ()):
        lines += ["", _outcome(outcome)]
    for withheld in view["withheld"]:
        why = _WITHHELD.get(withheld["why"], plain(withheld["why"]))
        lines += ["", f"{when(withheld['at'])} withheld (event {withheld['seq']}): {why}"]
    return "\n".join(lines)


def _outcome(outcome: View) -> str:
    error = f": {plain(outcome['error'], 2000)}" if outcome["error"] else ""
    went = "it was done" if outcome["ok"] else f"it failed{error}"
    who = plain(outcome["agent"])
    return f"{when(outcome['at'])} {who} reported (event {outcome['seq']}): {went}"


def _decided(decided: View) -> Iterator[str]:
    said = _SAID.get(decided["decision"], plain(decided["decision"]))
    note = "" if decided["first"] else ", a dry run or a repeat, which takes nothing"
    yield f"{when(decided['at'])} {said} (event {decided['seq']}{note})"
    yield from indented(
        (
            ("agent", plain(decided["agent"])),
            ("type", plain(decided["type"])),
            ("judged", _judged(decided)),
            ("digest", plain(decided["digest"])),
        )
    )
    yield from _opinions(decided)
    yield "  proposed"
    yield from (f"  {line}" for line in indented(_proposal(decided["proposal"])))


def _judged(decided: View) -> str:
    words = (decided["tier"], f"risk {decided['risk']}", decided["reversibility"])
    return plain(", ".join(words))


def _opinions(decided: View) -> Iterator[str]:
    if not decided["verdicts"]:
        yield "  no guard restricted it"
    for verdict in decided["verdicts"]:
        said = _SAID.get(verdict["decision"], plain(verdict["decision"]))
        rules = ", ".join(map(plain, (verdict["rule"], *verdict.get("also", ()))))
        yield f"  {plain(verdict['guard'])}: {said} by {rules}"
        yield f"    {plain(verdict['reason'], 2000)}"


def _proposal(proposal: View) -> Iterator[tuple[str, str]]:
    rest = [name for name in proposal if name not in _FIRST]
    for name in (*_FIRST, *rest):
        if name in proposal:
            yield plain(name, 40), _value(proposal[name])


def _value(value: object) -> str:
    return plain(value, 2000) if isinstance(value, str) else plain(document(value), 2000)
