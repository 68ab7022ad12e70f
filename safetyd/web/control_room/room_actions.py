"""The buttons of the control room: each sends a command as the operator.

Commands that restrict (stop, pause, deny, enter safe mode) need the cookie and the form token, so
they work without scripts. Commands that permit also need a proof, which the browser stores for our
origin only: another program on this machine may receive the cookie, but never the proof.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import urlencode

from aiohttp import web

from safetyd.clock import Clock
from safetyd.core.guards.kernel import EVERYBODY
from safetyd.journal.mailbox import Unanswered
from safetyd.operators.contract.grant_contract import RequestGrantTerms
from safetyd.operators.contract.history_contract import RollbackCommand
from safetyd.operators.contract.hold_contract import (
    EnterCommand,
    ExitCommand,
    PauseCommand,
    ResetCommand,
    ResumeCommand,
    StopCommand,
    UnpauseCommand,
)
from safetyd.operators.contract.question import Call, Review
from safetyd.operators.contract.request_contract import (
    ApproveCommand,
    DenyCommand,
    RequestQuestion,
    ReviewDone,
    ReviewResult,
)
from safetyd.operators.contract.status_contract import TopBarQuestion
from safetyd.operators.replies import CommandRefused
from safetyd.operators.replies import Done as Reply
from safetyd.web.control_room.page_content import set_digest
from safetyd.web.control_room.room_rendering import HEADERS
from safetyd.web.control_room.template_filters import whom
from safetyd.web.control_room.visitors import FIELD, NOT_STOPPED, UNDONE, Visitor, Visitors
from safetyd.web.control_room.web_sessions import Note
from safetyd.web.engine_gateway import NotBegun
from safetyd.web.forms import FormRefused, read_form
from safetyd.web.operator_gateway import OperatorGateway

VIA: Final = "web"
HELD: Final = (
    "No daemon has recorded the stop yet. It is recorded as soon as a daemon decides. Another "
    "daemon that still decides may allow actions until then."
)
NO_ANSWER: Final = "No answer: {}."

_is_ours = re.compile(r"(/[A-Za-z0-9_-]+)+\Z|/\Z").match

Form = Mapping[str, tuple[str, ...]]


class Done(NamedTuple):
    """The result of a command as a message, and the page that shows it."""

    said: str
    page: str
    failed: bool = False


Act = Callable[["RoomActions", Visitor, str, Form], Awaitable[Done]]

# For each command of a form, by name: True if it permits something. A bool applies to all commands.
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
        for path in ("/stop", "/resume"):  # for users who type the URL; the other URLs have pages
            app.router.add_get(path, _to_stopped)
        app.router.add_post("/stop", self._handler(RoomActions.stop, NEVER, NOT_STOPPED))
        app.router.add_post("/resume", self._handler(RoomActions.resume, ALWAYS))
        app.router.add_post("/requests", self._handler(RoomActions.answer, ANSWERS))
        app.router.add_post("/agents/{name}", self._handler(RoomActions.hold, ON_AN_AGENT))
        app.router.add_post("/history/{name}", self._handler(RoomActions.roll_back, ALWAYS))
        app.router.add_post("/safe-mode", self._handler(RoomActions.safe_mode, ON_SAFE_MODE))

    async def roll_back(self, visitor: Visitor, commit: str, form: Form) -> Done:
        """Restore files of a project."""
        kind = _one(form, "kind")
        if kind not in {"soft", "revert"}:
            raise CommandRefused("invalid", f"{kind!r} is not one of soft, revert")
        command = RollbackCommand(
            commit=commit,
            kind="revert" if kind == "revert" else "soft",
            project=_one(form, "project"),
            reason=_one(form, "reason").strip(),
            via=VIA,
        )
        told = await self._gateway.ask(visitor.name, command)
        if not told.made:
            return Done(f"Nothing to change in {told.project}.", f"/history/{commit}")
        counts = {"restored": told.restored, "created": told.created, "deleted": told.deleted}
        effects = (f"{count} {effect}" for effect, count in counts.items() if count)
        left = f" Not restored: {told.left_count}." if told.left_count else ""
        said = f"{', '.join(effects) or 'none changed'}.{left} The previous state is commit"
        words = f"{told.project} was rolled back. Files: {said} {told.kept[:12]}."
        return Done(words, f"/history/{told.made}")

    async def stop(self, visitor: Visitor, _name: str, form: Form) -> Done:
        """Stop everything, or one agent."""
        agent = _one(form, "agent") or None
        command = StopCommand(agent=agent, reason=_one(form, "reason"), via=VIA)
        told = await self._gateway.ask(visitor.name, command)
        if told.held:
            return Done(f"This daemon has stopped {agent or 'everything'}. {HELD}", "/stopped")
        kept = "" if told.journalled else " The stop is not stored: a restart would lose it."
        return Done(f"{agent or 'Everything'} is stopped.{kept}", "/stopped")

    async def resume(self, visitor: Visitor, _name: str, form: Form) -> Done:
        """End the stop of everything or of one agent. The message lists stops that remain."""
        reason, agent = _reason(form), _one(form, "agent") or None
        command = ResumeCommand(agent=agent, reason=reason, via=VIA)
        told = await self._gateway.ask(visitor.name, command)
        if told.left:
            return Done(" ".join(map(_still_stopped, told.left)), "/stopped", failed=True)
        absent = _absent(told.absent)
        besides = await self._other_stops(visitor)
        page = "/stopped" if besides else "/"
        if not told.cleared:
            said = f"{agent} was not stopped" if agent else "no stop applies to everything"
            return Done(f"Nothing changed: {said}.{besides}", page, failed=True)
        resumed = f"{agent} may act again" if agent else "Resumed"
        return Done(f"{resumed}.{absent}{besides}", page)

    async def _other_stops(self, visitor: Visitor) -> str:
        """Return a sentence about the other active stops, if any."""
        try:
            bar = await self._gateway.ask(visitor.name, TopBarQuestion())
        except Unanswered:
            return ""
        left = [stop.agent for stop in bar.standstill.stops]
        still = "everything" if None in left else ", ".join(sorted(filter(None, left)))
        return f" Still stopped: {still}." if still else ""

    async def answer(self, visitor: Visitor, _name: str, form: Form) -> Done:
        """Approve or deny one request, or several: exactly those that the page showed."""
        ids, said = form.get("id", ()), _one(form, "do")
        if not ids:
            raise CommandRefused("invalid", "no request selected")
        if len(ids) > 1 or "set" in form:
            await self._check_set(visitor, ids, _one(form, "set"))
        elif said != "deny" and not _one(form, "digest"):
            raise CommandRefused("invalid", "the form does not identify a request: reload the page")
        command: Review[ReviewDone] = DenyCommand(ids=ids, reason=_one(form, "words"), via=VIA)
        if said != "deny":
            command = ApproveCommand(
                ids=ids,
                message=_one(form, "words"),
                digest=_one(form, "digest") if len(ids) == 1 else "",
                grant=_grant(form, self._clock.now().at),
                via=VIA,
            )
        told = await self._gateway.ask(visitor.name, command)
        failed = not all(result.ok for result in told.results)
        page = f"/requests/{ids[0]}" if failed and len(ids) == 1 else _next_page(form)
        return Done(_results(told.results), page, failed=failed)

    async def _check_set(self, visitor: Visitor, ids: tuple[str, ...], digest: str) -> None:
        """Refuse requests other than those the page showed, and requests that have ended."""
        rows = [
            (await self._gateway.ask(visitor.name, RequestQuestion(id=id_))).request for id_ in ids
        ]
        waiting = [row for row in rows if row.state == "pending"]
        if set_digest(waiting) != digest:
            raise CommandRefused(
                "digest_mismatch", "the requests changed after the page was shown: check them again"
            )

    async def hold(self, visitor: Visitor, name: str, form: Form) -> Done:
        """Pause, unpause or reset an agent, or change its safe mode."""
        chosen, reason = _one(form, "do"), _one(form, "reason")
        if chosen == "safe_mode_exit":
            return await self._leave_safe_mode(visitor, name, form, f"/agents/{name}")
        commands: Mapping[str, Call[Reply]] = {
            "pause": PauseCommand(agent=name, reason=reason, via=VIA),
            "unpause": UnpauseCommand(agent=name, reason=reason, via=VIA),
            "safe_mode_enter": EnterCommand(agent=name, reason=reason, via=VIA),
            "reset": ResetCommand(agent=name, via=VIA),
        }
        await self._gateway.ask(visitor.name, commands[chosen])
        page = _one_of(_one(form, "page"), f"/agents/{name}")
        return Done(f"{name}: {HOLDS[chosen]}.", page)

    async def safe_mode(self, visitor: Visitor, _name: str, form: Form) -> Done:
        agent = _one(form, "agent") or None
        if _one(form, "do") == "safe_mode_exit":
            return await self._leave_safe_mode(visitor, agent, form, "/safe-mode")
        command = EnterCommand(agent=agent, reason=_one(form, "reason"), via=VIA)
        await self._gateway.ask(visitor.name, command)
        return Done(f"{agent or 'All agents'}: {HOLDS['safe_mode_enter']}.", "/safe-mode")

    async def _leave_safe_mode(
        self, visitor: Visitor, agent: str | None, form: Form, page: str
    ) -> Done:
        """End the safe mode of one agent, or of all if None. List agents still in safe mode."""
        reason = _reason(form)
        if _one(form, "sure") != "yes":
            raise CommandRefused("invalid", "tick the confirmation box")
        command = ExitCommand(
            agent=agent,
            reason=reason,
            force=_one(form, "force") == "yes",
            all=agent is None,
            via=VIA,
        )
        told = await self._gateway.ask(visitor.name, command)
        named = "All agents" if agent in {None, EVERYBODY} else agent
        if told.more:
            return Done(
                f"{told.more} agents are still in safe mode. Send the form again.",
                page,
                failed=True,
            )
        if not told.still:
            return Done(f"{named}: {HOLDS['safe_mode_exit']}.", page)
        still = ", ".join(map(whom, told.still))
        if not told.left:
            return Done(f"Nothing changed. Still in safe mode: {still}.", page, failed=True)
        return Done(f"{named}: {HOLDS['safe_mode_exit']}. Still in safe mode: {still}.", page)

    def _handler(
        self, act: Act, choices: Choices, undone: str = UNDONE
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return the handler of a form. It first checks who sent the form.

        Scripts that accept JSON get the result. Other clients are redirected to a page with it.
        """

        async def handle(request: web.Request) -> web.StreamResponse:
            visitor = self._visitors.find(request)
            if visitor is None:
                return await self._visitors.signed_out(request, undone)
            why, said = "", undone
            try:
                form = await read_form(request)
                proof = _permits(choices, _one(form, "do"))
                self._visitors.check(request, visitor, _one(form, FIELD), proof=proof)
                done = await act(self, visitor, request.match_info.get("name", ""), form)
            except FormRefused:
                why = "the form was too long or cut off"
            except (CommandRefused, NotBegun) as exc:
                why = str(exc)
            except Unanswered as exc:
                why, said = str(exc), NO_ANSWER if undone is UNDONE else undone
            if why:
                back = _one_of(request.query.get("from", ""), "/")
                done = Done(said.format(why), back, failed=True)
            scripted = "application/json" in request.headers.get("Accept", "")
            if scripted and done.failed:
                return _result_json(done, why)
            self._visitors.sessions.note(visitor.session, Note(done.said, failed=done.failed))
            if scripted:
                return _result_json(done, why)
            headers = {**HEADERS, "Location": done.page}
            return web.Response(status=HTTPStatus.SEE_OTHER, headers=headers)

        return handle


def _result_json(done: Done, why: str) -> web.Response:
    """Return the result of a command as JSON."""
    status = HTTPStatus.CONFLICT if done.failed else HTTPStatus.OK
    told = {"done": not done.failed, "said": done.said, "why": why}
    return web.json_response(told, status=status, headers=HEADERS)


async def _to_stopped(_request: web.Request) -> web.StreamResponse:
    """Redirect to the page of active stops."""
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={**HEADERS, "Location": "/stopped"})


HOLDS: Final = {
    "pause": "paused",
    "unpause": "no longer paused",
    "safe_mode_enter": "in safe mode",
    "safe_mode_exit": "left safe mode",
    "reset": "loop counters, rounds and cooldowns are cleared",
}


def _absent(daemons: Sequence[str]) -> str:
    """Return a sentence about daemons that are not running and whose stops were cleared."""
    names = ", ".join(daemons)
    return f" Also cleared: stops of {names}, not running now." if names else ""


def _still_stopped(source: str) -> str:
    """Return a sentence about another source of a stop."""
    kind, _, path = source.partition(":")
    if kind == "file":
        return f"Still stopped by the file {path}. Run `safetyd resume` in a terminal."
    return f"Still stopped by {source}. End that stop first."


def _permits(choices: Choices, chosen: str) -> bool:
    """Return True if a command permits something. Refuse unknown commands."""
    if isinstance(choices, bool):
        return choices
    if chosen not in choices:
        raise CommandRefused("invalid", f"{chosen!r} is not one of {', '.join(choices)}")
    return choices[chosen]


def _one(form: Form, name: str) -> str:
    return form.get(name, ("",))[0]


def _reason(form: Form) -> str:
    """Return the reason, which is required."""
    reason = _one(form, "reason").strip()
    if not reason:
        raise CommandRefused("invalid", "give a reason")
    return reason


def _one_of(address: str, otherwise: str) -> str:
    """Return `address` if it is a path that no browser reads as a host name, else `otherwise`."""
    return address if _is_ours(address) else otherwise


def _next_page(form: Form) -> str:
    """Return the URL of the next request in the list, or of the list itself."""
    filters = {name: said for name in ("agent", "type") if (said := _one(form, name))}
    page = _one_of(f"/requests/{_one(form, 'next')}", "/requests")
    return f"{page}?{urlencode(filters)}" if filters else page


def _grant(form: Form, now: datetime) -> RequestGrantTerms | None:
    """Return the terms of the grant that comes with an approval, if any."""
    if _one(form, "do") != "grant":
        return None
    try:
        hours, uses = float(_one(form, "hours")), int(_one(form, "uses"))
        until = now + timedelta(hours=hours)
    except (ValueError, OverflowError):
        raise CommandRefused("invalid", "hours and uses of a grant must be numbers") from None
    kind = _one(form, "kind")
    return RequestGrantTerms(
        until=until, uses=uses, program=kind == "program", session=kind == "session"
    )


def _results(results: Sequence[ReviewResult]) -> str:
    """Return a short message about the results of answers."""
    if len(results) == 1:
        return _result(results[0])
    done = sum(result.ok for result in results)
    alike: dict[str, list[str]] = {}
    for result in results:
        if not result.ok:
            refusal = _refusal(result)
            alike.setdefault(refusal.replace(result.id, "ID"), []).append(refusal)
    failed = (
        f"Not recorded: {len(each)} \N{MULTIPLICATION SIGN} {why}."
        if len(each) > 1
        else f"Not recorded: {each[0]}."
        for why, each in alike.items()
    )
    return " ".join((f"{done} of {len(results)} answered.", *islice(failed, 5)))


def _result(result: ReviewResult) -> str:
    if result.ok:
        held = f", but it cannot run yet ({result.held})" if result.held else ""
        granted = f" Granted as {result.grant}." if result.grant else ""
        return f"{str(result.decision).capitalize()} {result.id}{held}.{granted}"
    return f"Not recorded: {_refusal(result)}."


def _refusal(result: ReviewResult) -> str:
    if result.by:
        return f"it was already {result.decision} by {result.by} via {result.via}"
    return str(result.error)
