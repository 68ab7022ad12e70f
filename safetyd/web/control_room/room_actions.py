"""What the buttons of the control room do: each is a command that the operator's key may give.

What only restricts (stop, pause, deny, entering safe mode) needs the cookie and the token of our
own page, so that it works without scripts. What permits needs a proof besides, which the page keeps
for its own origin: another program on this machine can be sent the cookie, and never has that.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from itertools import islice
from typing import Any, Final, NamedTuple

from aiohttp import web

from safetyd.clock import Clock
from safetyd.operators.commands import CommandRefused
from safetyd.operators.history_access import HARD_WORD
from safetyd.web.control_room.page_content import set_digest
from safetyd.web.control_room.room_rendering import HEADERS
from safetyd.web.control_room.visitors import FIELD, Visitor, Visitors
from safetyd.web.engine_gateway import NotBegun, Unanswered
from safetyd.web.forms import FormRefused, read_form
from safetyd.web.operator_gateway import OperatorGateway

VIA: Final = "web"
RESUME_WORD: Final = "RESUME"

_is_ours = re.compile(r"(/[A-Za-z0-9_-]+)+\Z|/\Z").match

Form = Mapping[str, tuple[str, ...]]


class Done(NamedTuple):
    """What is said afterwards, and the page that says it."""

    said: str
    page: str


Act = Callable[["RoomActions", Visitor, str, Form], Awaitable[Done]]

# What a form offers, and whether that permits something: by what was chosen, or whatever it is.
Choices = Mapping[str, bool] | bool
NEVER: Final = False
ALWAYS: Final = True
ANSWERS: Final = {"approve": True, "grant": True, "deny": False}
ON_SAFE_MODE: Final = {"safe_mode_enter": False, "safe_mode_exit": True}
ON_AN_AGENT: Final = {"pause": False, "unpause": True, "reset": True, **ON_SAFE_MODE}


class RoomActions:
    def __init__(self, gateway: OperatorGateway, visitors: Visitors, clock: Clock) -> None:
        self._gateway = gateway
        self._visitors = visitors
        self._clock = clock

    def routes(self, app: web.Application) -> None:
        for path in ("/stop", "/resume"):  # typed by hand; the others have pages
            app.router.add_get(path, _to_stopped)
        app.router.add_post("/stop", self._handler(RoomActions.stop, NEVER))
        app.router.add_post("/resume", self._handler(RoomActions.resume, ALWAYS))
        app.router.add_post("/requests", self._handler(RoomActions.answer, ANSWERS))
        app.router.add_post("/agents/{name}", self._handler(RoomActions.hold, ON_AN_AGENT))
        app.router.add_post("/history/{name}", self._handler(RoomActions.roll_back, ALWAYS))
        app.router.add_post("/safe-mode", self._handler(RoomActions.safe_mode, ON_SAFE_MODE))

    async def roll_back(self, visitor: Visitor, commit: str, form: Form) -> Done:
        """Put files of a project back as they were, or move its branch, which takes a word."""
        kind, project = _one(form, "kind"), _one(form, "project")
        if kind not in {"soft", "revert", "hard"}:
            raise CommandRefused("invalid", f"{kind!r} is not one of soft, revert, hard")
        if kind == "hard" and _one(form, "word") != HARD_WORD:
            raise CommandRefused("invalid", f"to move the branch, type {HARD_WORD}")
        told = await self._gateway.control(
            visitor.name,
            "rollback",
            commit=commit,
            kind=kind,
            project=project,
            reason=_one(form, "reason").strip(),
            via=VIA,
        )
        kept = told["kept"][:12]
        said = f"{told['files']} changed. What was there is kept as {kept}."
        return Done(f"{told['project']} is rolled back. Files: {said}", f"/history/{told['kept']}")

    async def stop(self, visitor: Visitor, _name: str, form: Form) -> Done:
        """Stop everything, or one agent."""
        agent = _one(form, "agent") or None
        told = await self._gateway.control(
            visitor.name, "stop", agent=agent, reason=_one(form, "reason"), via=VIA
        )
        kept = "" if told["journalled"] else " A restart now would forget it."
        return Done(f"{agent or 'Everything'} is stopped.{kept}", "/stopped")

    async def resume(self, visitor: Visitor, _name: str, form: Form) -> Done:
        reason, agent = _one(form, "reason").strip(), _one(form, "agent") or None
        if _one(form, "word").strip().upper() != RESUME_WORD or not reason:
            raise CommandRefused("invalid", f"type the word {RESUME_WORD} and a reason")
        told = await self._gateway.control(
            visitor.name, "resume", agent=agent, reason=reason, via=VIA
        )
        if told["left"]:
            left = ", ".join(told["left"])
            return Done(f"Still stopped by {left}: end that first.", "/stopped")
        return Done("Work goes on.", "/")

    async def answer(self, visitor: Visitor, _name: str, form: Form) -> Done:
        """Approve or deny what was shown: one request, or exactly the set of a table."""
        ids, said = form.get("id", ()), _one(form, "do")
        if not ids:
            raise CommandRefused("invalid", "no request was chosen")
        if len(ids) > 1 or "set" in form:
            await self._check_set(visitor, ids, _one(form, "set"))
        elif said != "deny" and not _one(form, "digest"):
            raise CommandRefused("invalid", "nothing says what was shown: look again")
        if said == "deny":
            told = await self._gateway.review(
                visitor.name, "deny", ids=ids, reason=_one(form, "words"), via=VIA
            )
        else:
            told = await self._approve(visitor, ids, form)
        page = f"/requests/{ids[0]}" if len(ids) == 1 else "/"
        return Done(_results(told["results"]), page)

    async def _check_set(self, visitor: Visitor, ids: tuple[str, ...], digest: str) -> None:
        """Refuse a set that is not the one that the table showed, or of which some is over."""
        rows = [(await self._gateway.ask(visitor.name, "request", id=i))["request"] for i in ids]
        waiting = [row for row in rows if row["state"] == "pending"]
        if set_digest(waiting) != digest:
            raise CommandRefused(
                "digest_mismatch", "this is not the set that was shown: look again"
            )

    async def _approve(self, visitor: Visitor, ids: tuple[str, ...], form: Form) -> dict[str, Any]:
        fields: dict[str, object] = {"ids": ids, "message": _one(form, "words"), "via": VIA}
        if len(ids) == 1:
            fields["digest"] = _one(form, "digest")
        if grant := _grant(form, self._clock.now().at):
            fields["grant"] = grant
        return await self._gateway.review(visitor.name, "approve", **fields)

    async def hold(self, visitor: Visitor, name: str, form: Form) -> Done:
        """Pause an agent, put it in safe mode, reset it, or let it go."""
        command, reason = _one(form, "do"), _one(form, "reason")
        fields = {"agent": name, "via": VIA}
        if command != "reset":
            fields["reason"] = reason
        await self._gateway.control(visitor.name, command, **fields)
        page = _one_of(_one(form, "page"), f"/agents/{name}")
        return Done(f"{name}: {HOLDS[command]}.", page)

    async def safe_mode(self, visitor: Visitor, _name: str, form: Form) -> Done:
        command, agent = _one(form, "do"), _one(form, "agent") or None
        if command == "safe_mode_exit" and _one(form, "sure") != "yes":
            raise CommandRefused("invalid", "say that you are sure")
        fields: dict[str, object] = {"agent": agent, "reason": _one(form, "reason"), "via": VIA}
        if command == "safe_mode_exit":
            fields |= {"force": _one(form, "force") == "yes", "all": agent is None}
        await self._gateway.control(visitor.name, command, **fields)
        return Done(f"{agent or 'Everybody'}: {HOLDS[command]}.", "/safe-mode")

    def _handler(
        self, act: Act, choices: Choices
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return what takes a form: who sent it is known before anything is done."""

        async def handle(request: web.Request) -> web.StreamResponse:
            visitor = self._visitors.find(request)
            if visitor is None:
                return await self._visitors.signed_out(request)
            back = _one_of(request.query.get("from", ""), "/")
            try:
                form = await read_form(request)
                proof = _permits(choices, _one(form, "do"))
                self._visitors.check(request, visitor, _one(form, FIELD), proof=proof)
                done = await act(self, visitor, request.match_info.get("name", ""), form)
            except FormRefused:
                done = Done("Not done: the form was too long or cut off.", back)
            except (CommandRefused, NotBegun) as exc:
                done = Done(f"Not done: {exc}.", back)
            except Unanswered as exc:
                done = Done(f"No answer: {exc}.", back)
            self._visitors.sessions.note(visitor.session, done.said)
            headers = {**HEADERS, "Location": done.page}
            return web.Response(status=HTTPStatus.SEE_OTHER, headers=headers)

        return handle


async def _to_stopped(_request: web.Request) -> web.StreamResponse:
    """Lead to the page that says what is stopped, and do nothing."""
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={**HEADERS, "Location": "/stopped"})


HOLDS: Final = {
    "pause": "paused",
    "unpause": "not paused any more",
    "safe_mode_enter": "in safe mode",
    "safe_mode_exit": "out of safe mode",
    "reset": "loop visits, rounds and cooldowns are forgotten",
}


def _permits(choices: Choices, chosen: str) -> bool:
    """Say whether what was chosen permits something; what a form does not offer is refused."""
    if isinstance(choices, bool):
        return choices
    if chosen not in choices:
        raise CommandRefused("invalid", f"{chosen!r} is not one of {', '.join(choices)}")
    return choices[chosen]


def _one(form: Form, name: str) -> str:
    return form.get(name, ("",))[0]


def _one_of(address: str, otherwise: str) -> str:
    """Return an address of ours to go back to: what a browser cannot read as a host."""
    return address if _is_ours(address) else otherwise


def _grant(form: Form, now: datetime) -> dict[str, object]:
    """Return the terms of a grant, if one goes with the approval."""
    if _one(form, "do") != "grant":
        return {}
    try:
        hours, uses = float(_one(form, "hours")), int(_one(form, "uses"))
        until = now + timedelta(hours=hours)
    except (ValueError, OverflowError):
        raise CommandRefused("invalid", "hours and uses of a grant must be numbers") from None
    kind = _one(form, "kind")
    return {
        "until": until.isoformat(),
        "uses": uses,
        "program": kind == "program",
        "session": kind == "session",
    }


def _results(results: list[Mapping[str, Any]]) -> str:
    """Say what came of each answer, in few words."""
    if len(results) == 1:
        return _result(results[0])
    done = sum(result["ok"] for result in results)
    alike: dict[str, list[str]] = {}
    for result in results:
        if not result["ok"]:
            refusal = _refusal(result)
            alike.setdefault(refusal.replace(result["id"], "ID"), []).append(refusal)
    failed = (
        f"Not recorded: {len(each)} \N{MULTIPLICATION SIGN} {why}."
        if len(each) > 1
        else f"Not recorded: {each[0]}."
        for why, each in alike.items()
    )
    return " ".join((f"{done} of {len(results)} answered.", *islice(failed, 5)))


def _result(result: Mapping[str, Any]) -> str:
    if result["ok"]:
        held = f", and held back ({result['held']})" if result.get("held") else ""
        granted = f" Granted as {result['grant']}." if result.get("grant") else ""
        return f"{str(result['decision']).capitalize()}{held}.{granted}"
    return f"Not recorded: {_refusal(result)}."


def _refusal(result: Mapping[str, Any]) -> str:
    if result.get("by"):
        return f"it was already {result['decision']} by {result['by']} via {result['via']}"
    return str(result["error"])
