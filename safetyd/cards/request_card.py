"""The card of a request: everything an operator needs to decide, in words and in one order.

A channel with little room drops whole fields from the end, or cuts out the middle of the exact
text. The card then lists the omitted parts. If an approval would cover any of them, the card offers
no way to approve. The agent's words are not sanitized here: each channel does that for its format.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from itertools import groupby, pairwise
from textwrap import indent
from typing import Final, Literal, Self

import msgspec
from msgspec import UNSET

from safetyd.cards.request_details import GrantOffer, RequestDetails, RequestEnded, short_digest
from safetyd.cards.risk_words import by_gravity, danger_by, rule_words, stricter, undone
from safetyd.core.approvals.request import State
from safetyd.core.messages.binding import besides, object_of
from safetyd.core.messages.money import dollars, nano
from safetyd.core.messages.proposal import Proposal, Risk, Urgency
from safetyd.core.messages.verdict import CommandPart
from safetyd.core.shell.command_reader import READ
from safetyd.core.text.diff_lines import DiffKind, diff_lines, holds_diff
from safetyd.core.text.time_words import day_and_clock, duration, in_zone, near
from safetyd.core.text.visible_text import cut_to, quoted
from safetyd.core.text.web_addresses import site_of

SHOWN_PARTS: Final = 5  # maximum number of command parts that are listed
MAX_DIFFS: Final = 20
MAX_COLOURED: Final = 4000  # in lines; a longer diff is shown as plain text
TEXT: Final = "text"  # the name of the first field
DEADLINE: Final = "deadline"
EXACT: Final = "exact text"
NOT_STATED: Final = "not stated"
UNSTATED: Final = frozenset({"no_cost", "no_rollback"})  # fields that state that nothing was said
NONE_GIVEN: Final = "none given"
MIN_GIST: Final = 24  # characters of the action that a question shows, however long its names are

# Keys in `context` and in unknown fields that name recipients.
_RECIPIENTS: Final = ("to", "cc", "bcc", "recipient", "recipients")
_DIFFS: Final = frozenset({"diff", "patch"})
_ACTIONS: Final = frozenset({TEXT, "paths", "target"})  # fields that say what the action is
_USUAL: Final = ". Usual is "  # between the reason of a pause and what is usual
_SO: Final = ", so it needs approval"  # the end of many reasons
# Fields of a proposal that the card shows in another way, or that do not describe the action.
_ELSEWHERE: Final = frozenset(
    {
        *("id", "type", "agent", "at", "urgency", "wait", "timeout_s", "request_id", "supersedes"),
        *("text", "description", "rationale", "rollback", "project", "dry_run", "context", "extra"),
        *("target", "paths", "remote", "cwd", "cost_usd", "tokens"),
    }
)

RequestKind = Literal["request", "reminder", "last_call", "expired"]
Piece = tuple[str, bool]  # a piece of text, and whether it needs approval


class ColouredLine(msgspec.Struct, frozen=True):
    """A line of a field. In a diff, it has a kind, such as added."""

    kind: DiffKind | Literal[""]
    pieces: tuple[Piece, ...]


class CardField(msgspec.Struct, frozen=True, kw_only=True):
    """One fact of a card."""

    name: str
    title: str
    lines: tuple[str, ...]
    agent: bool = False  # the text is the agent's own words
    bound: bool = False  # an approval covers this field
    label: str = ""  # its name in a list of omitted fields
    diff: bool = False
    marks: tuple[CommandPart, ...] = ()  # parts of the text that need approval
    cut: int = 0  # omitted characters
    needed: bool = False  # the decision depends on it
    brief: str = ""  # the same in a few words, without a title, for a phone
    gist: str = ""  # its most important words, for a subject

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def required(self) -> bool:
        """True if a message without this field offers no approval."""
        return self.bound or self.needed

    @property
    def named(self) -> str:
        return self.label or self.title

    @property
    def boxed(self) -> bool:
        """True if a page shows the field in a separate box."""
        return self.agent and (self.name == TEXT or len(self.lines) > 1)

    @property
    def coloured(self) -> Iterator[ColouredLine]:
        """Yield the lines, with the kinds of diff lines and the marked parts of a command."""
        lines = _pieces_of_lines(marked_parts(self.text, self.marks))
        coloured = self.diff and len(lines) <= MAX_COLOURED
        kinds = (line.kind for line in diff_lines(self.text)) if coloured else [""] * len(lines)
        for kind, pieces in zip(kinds, lines, strict=True):
            yield ColouredLine("" if kind == "same" else kind, tuple(pieces))  # type: ignore[arg-type]


def coloured_diff(text: str) -> tuple[ColouredLine, ...]:
    """Return the lines of a diff, each with its kind."""
    lines = tuple(text.split("\n"))
    return tuple(CardField(name="diff", title="diff", lines=lines, diff=True).coloured)


class RequestCard(msgspec.Struct, frozen=True, kw_only=True):
    """A request in words. `first` and `with_text` shorten it."""

    kind: RequestKind = "request"
    id: str
    agent: str
    type: str
    project: str = ""
    state: State = "pending"
    own: bool = False  # safetyd itself asks whether a paused agent may continue
    urgency: Urgency
    risk: Risk
    reversibility: str
    asked: datetime  # like all times here, in the recipient's time zone
    deadline: datetime | None = None
    silence: str = ""  # what happens if nobody answers
    cost: str = ""  # an amount
    wish: str = ""  # what is asked for, if it is more than the action
    digest: str  # short
    count: int = 1  # how often it was proposed
    fields: tuple[CardField, ...]
    left_out: tuple[str, ...] = ()  # names of fields that are omitted or cut
    whole: bool = True  # the card shows everything that a decision needs
    approve_by: tuple[str, ...] = ()  # where it can be approved: link, sms, desktop
    link: str = ""  # link to the page of the request
    code: str = ""  # code that approves it on its page, and by SMS if permitted
    deny_code: str = ""  # code for an SMS reply that denies it
    commands: tuple[str, ...] = ()  # commands that answer it in a terminal
    option: str = ""  # --data-dir for every command; empty for the default directory
    grant: GrantOffer | None = None

    def question(self, most: int) -> str:
        """Return the question in one line of at most `most` characters, cut in the middle."""
        asked, what = self.wish or self.names, self._gist
        if not what:
            return cut_to(asked, most)
        asked = cut_to(asked, max(most - len(what) - 2, most - MIN_GIST - 2))
        return f"{asked}: {cut_to(what, most - len(asked) - 2)}"

    @property
    def names(self) -> str:
        """Who asks for what type of action."""
        return f"resume {self.agent}" if self.own else f"{self.type} by {self.agent}"

    @property
    def _gist(self) -> str:
        """The most important words of the action, on one line."""
        first = next(iter(self.fields), None)
        if first is None or first.name not in _ACTIONS or first.lines == (NONE_GIVEN,):
            return ""
        return first.gist or " ⏎ ".join(
            filter(None, (" ".join(line.split()) for line in first.lines))
        )

    @property
    def title(self) -> str:
        if self.own:
            return f"resume paused agent {self.agent}"
        project = f" in {self.project}" if self.project else ""
        return f"{self.type} by {self.agent}{project}"

    @property
    def refs(self) -> tuple[str, ...]:
        """The requests on the card."""
        return (self.id,)

    @property
    def size(self) -> int:
        """The number of requests on the card."""
        return len(self.refs)

    @property
    def asks(self) -> bool:
        """True if the request can still be answered."""
        return self.kind != "expired"

    def find(self, name: str) -> str:
        """Return the text of a field, or an empty string if the card has no such field."""
        return next((field.text for field in self.fields if field.name == name), "")

    def first(self, count: int) -> Self:
        """Return the card with only its first `count` fields."""
        dropped = self.fields[count:]
        names, required = [each.named for each in dropped], any(each.required for each in dropped)
        return self._without(names, required=required, fields=self.fields[:count])

    def with_text(self, chars: int) -> Self:
        """Return the card with at most `chars` characters of its first field."""
        shown, cut = cut_middle(self.fields[0].text, chars) if self.fields else ("", 0)
        return self.with_field(0, shown, cut) if cut else self

    def with_field(self, at: int, shown: str, cut: int) -> Self:
        """Return the card with a new text in one field. `cut` characters of it were omitted."""
        field = self.fields[at]
        lines = tuple(shown.split("\n")) if field.agent else (shown,)
        short = msgspec.structs.replace(field, lines=lines, cut=field.cut + cut, marks=())
        fields = (*self.fields[:at], short, *self.fields[at + 1 :])
        name = f"{cut:,} characters of the {field.title}"
        return self._without([name], required=field.required, fields=fields)

    def without(self, what: str) -> Self:
        """Return the card with one more omitted part, which an approval would cover."""
        return self._without([what], required=True, fields=self.fields)

    def _without(
        self, names: Sequence[str], *, required: bool, fields: tuple[CardField, ...]
    ) -> Self:
        kept = msgspec.structs.replace(self, left_out=(*self.left_out, *names), fields=fields)
        if not required:
            return kept
        answered = (f"safetyd {verb} {self.id}{self.option}" for verb in ("show", "deny"))
        commands = self.commands and tuple(answered)
        return msgspec.structs.replace(kept, whole=False, code="", approve_by=(), commands=commands)

    def with_option(self, option: str) -> Self:
        """Return the card with an option in each of its commands."""
        named = tuple(f"{command}{option}" for command in self.commands)
        return msgspec.structs.replace(self, commands=named, option=option)

    @property
    def unshown(self) -> str:
        """A sentence that lists the omitted parts, or an empty string."""
        if not self.left_out:
            return ""
        where = "" if self.whole else " Review the full request before you approve it."
        return f"Not shown here: {', '.join(self.left_out)}.{where}"


def request_card(details: RequestDetails, zone: tzinfo | None, now: datetime) -> RequestCard:
    """Return the card of a request. Times are in `zone`; None means this machine's zone."""
    offer = details.grant
    return RequestCard(
        id=details.id,
        agent=details.agent,
        type=details.type,
        project=details.proposal.project or "",
        state=details.state,
        own=details.own,
        urgency=details.urgency,
        risk=details.risk,
        reversibility=stricter(details.reversibility, details.rules),
        asked=details.asked_at.astimezone(zone),
        deadline=None if details.deadline is None else details.deadline.astimezone(zone),
        silence=_silence(details),
        cost=_amount(details.proposal),
        wish=details.wish,
        digest=short_digest(details.digest),
        count=details.repeats + 1,
        fields=tuple(_fields(details, zone, now)),
        commands=commands(details) if details.state == "pending" else (),
        grant=None if offer is UNSET else offer,
    )


def commands(details: RequestDetails) -> tuple[str, str]:
    """Return the commands that approve and deny a request."""
    approve = f"safetyd approve {details.id} --digest {short_digest(details.digest)}"
    return approve, f"safetyd deny {details.id}"


def _silence(details: RequestDetails) -> str:
    if details.own:
        return "If nobody answers, the agent stays paused."
    return "If nobody answers, it does not run."


def _fields(details: RequestDetails, zone: tzinfo | None, now: datetime) -> Iterator[CardField]:
    """Yield the fields, the most important first."""
    yield from _action(details)
    yield from _terms(details, zone, now)
    yield from _attached(details.proposal)
    yield from _known("suggestion", "suggestion", [_suggestion(details)])
    yield from _reasons(details)
    yield from _known("asked", "requested", [_asked(details, zone)])
    earlier = (_earlier(row, details, zone) for row in details.before)
    yield from _known("before", "past answers", earlier)


def _action(details: RequestDetails) -> Iterator[CardField]:
    """Yield what the action does, where, and what it costs: first the text, paths or target."""
    proposal = details.proposal
    what, exact = tuple(_what(details)), (*_paths(details), *_target(proposal))
    described = not proposal.text and bool(exact)  # then the agent's description comes later
    yield from exact if described else (*what, *exact)
    yield from _known("parts", "parts that need approval", _part_lines(details))
    yield from _recipients(proposal)
    amount = _amount(proposal)
    if amount:
        estimate = f"{amount} (agent's estimate)"
        yield from _known("cost", "cost", [estimate], bound=True, brief=f"costs {amount}")
    yield from _said("remote", "sent to", proposal.remote, bound=True)
    yield from _said("project", "project", proposal.project, bound=True)
    folder, stated = _folder(details), proposal.cwd is not None
    yield from _known("folder", "folder", [folder], bound=stated, brief=f"in {folder}" * stated)
    if described:
        yield from what
    yield from _said("tokens", "tokens", msgspec.to_builtins(proposal.tokens), bound=True)
    if not details.own:
        yield from _known("gives", "if approved", [details.gives], bound=True)


def _paths(details: RequestDetails) -> Iterator[CardField]:
    paths = tuple(map(_on_one_line, details.proposal.paths))
    more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
    gist = f"{paths[0]}{more}" if paths else ""
    yield from _said("paths", "paths", list(paths), bound=True, gist=gist)
    ends = (end or "some links could not be followed" for end in details.resolved)
    yield from _known("resolved", "resolved paths", ends, bound=True)


def _target(proposal: Proposal) -> Iterator[CardField]:
    if (target := proposal.target) is None:
        return
    label = target.label or target.name or target.role
    site = site_of(target.url) or target.window or target.app
    gist = " on ".join(filter(None, (f'"{label}"' if label else "", site)))
    yield from _said("target", "target", msgspec.to_builtins(target), bound=True, gist=gist)


def _terms(details: RequestDetails, zone: tzinfo | None, now: datetime) -> Iterator[CardField]:
    """Yield the risk, the deadline and the reasons for requiring approval."""
    danger = danger_by(details.risk, details.reversibility, details.rules)
    found = undone(stricter(details.reversibility, details.rules))
    yield from _known("risk", "risk", [danger], needed=True, brief=f"{details.risk} risk, {found}")
    if details.state == "pending":
        lines, brief = [_deadline(details, zone, now)], _brief_deadline(details, zone, now)
        yield from _known(DEADLINE, "deadline", lines, needed=True, brief=brief)
    yield from _rules(details, zone)
    if details.unknown:
        yield from _known("unknown", "type", ["not configured"])
    if details.state == "expired" and details.answer is not None:
        # The rule; the sentence after it tells the agent how to ask again.
        yield from _known("closed", "closed", [details.answer.words.partition(". ")[0]])


def _rules(details: RequestDetails, zone: tzinfo | None) -> Iterator[CardField]:
    """Yield the rules that require approval, the gravest first."""
    if details.own:
        return  # its first field is the reason
    verdicts = by_gravity(details.verdicts)
    reasons = [in_zone(verdict.reason, zone, details.asked_at) for verdict in verdicts]
    lines = [f"{each.rule}: {why}" for each, why in zip(verdicts, reasons, strict=True)]
    lines += [  # the parts of a command say more than its other rules
        f"{rule}: {rule_words(rule)}" for each in verdicts if not each.parts for rule in each.also
    ]
    brief = "; ".join(dict.fromkeys(why.removesuffix(_SO) for why in reasons))
    yield from _known("rules", "required by", lines, needed=True, brief=brief)


def _suggestion(details: RequestDetails) -> str:
    if not details.similar or details.state != "pending":
        return ""
    return (
        f"{details.similar} similar requests of this session were approved. To allow further ones: "
        f"safetyd approve {details.id} --grant --for 8h"
    )


def _attached(proposal: Proposal) -> Iterator[CardField]:
    """Yield everything else that the agent sent. Fields that an approval covers come first."""
    said, bound = object_of(proposal.context), frozenset(besides(proposal))
    yield from _diffs(said)
    yield from _rest("context", "context", said)
    if not said:
        yield from _said("context", "context", _plain_json(proposal.context), bound=True)
    yield from _rest("extra", "unknown fields", object_of(proposal.extra))
    names = [name for name in Proposal.__struct_fields__ if name not in _ELSEWHERE]
    for name in sorted(names, key=lambda name: name not in bound):
        value = msgspec.to_builtins(getattr(proposal, name))
        yield from _said(name, name.replace("_", " "), value, bound=name in bound)


def _reasons(details: RequestDetails) -> Iterator[CardField]:
    """Yield the agent's explanations, and which of them are missing."""
    proposal = details.proposal
    yield from _said("rationale", "agent's reason", proposal.rationale)
    if proposal.text:
        yield from _said("description", "description", proposal.description)
    yield from _said("rollback", "rollback plan", proposal.rollback)
    if details.own:
        yield from _known("gives", "if approved", [details.gives])
        return
    if not proposal.rollback:
        yield from _known("no_rollback", "rollback plan", ["none given"])
    if proposal.cost_usd is None:
        yield from _known("no_cost", "cost", [NOT_STATED])


def _what(details: RequestDetails) -> Iterator[CardField]:
    """Yield the exact text of the action, or its description if the agent gave no text."""
    proposal = details.proposal
    if proposal.text:
        marks = tuple(part for verdict in details.verdicts for part in verdict.parts)
        yield CardField(
            name=TEXT,
            title=EXACT,
            lines=tuple(proposal.text.split("\n")),
            agent=True,
            bound=True,
            diff=holds_diff(proposal.text),
            marks=marks,
        )
        return
    described = tuple(proposal.description.split("\n"))
    if details.own:
        why, *_ = proposal.description.split(_USUAL)
        yield CardField(name=TEXT, title="paused because", lines=described, bound=True, gist=why)
    elif proposal.description:
        title = "description (no exact text given)"
        yield CardField(name=TEXT, title=title, lines=described, agent=True, bound=True)
    elif not proposal.paths and proposal.target is None:
        yield CardField(name=TEXT, title=EXACT, lines=(NONE_GIVEN,), bound=True)


def _part_lines(details: RequestDetails) -> Iterator[str]:
    """Yield a line for each of the first parts of a command, and the number of further parts."""
    parts = (part for verdict in details.verdicts for part in verdict.parts)
    lines = tuple(dict.fromkeys(f"`{part.shown}`: {part.why}" for part in parts))
    yield from lines[:SHOWN_PARTS]
    if len(lines) > SHOWN_PARTS:
        yield f"and {len(lines) - SHOWN_PARTS} more"


def _recipients(proposal: Proposal) -> Iterator[CardField]:
    for given in map(object_of, (proposal.context, proposal.extra)):
        named = {name: given[name] for name in _RECIPIENTS if given.get(name)}
        if named:
            yield from _said("recipients", "recipients", named, bound=True)


def _folder(details: RequestDetails) -> str:
    """Return the folder of an action: always for commands, else only if the agent gave one."""
    cwd, project = details.proposal.cwd, details.proposal.project
    if cwd:
        absolute = cwd.startswith(("/", "~"))
        return cwd if absolute or not project else f"{cwd} in project {project}"
    if details.type not in READ:
        return ""
    return f"not given (project {project})" if project else "not given"


def _amount(proposal: Proposal) -> str:
    return "" if proposal.cost_usd is None else dollars(nano(proposal.cost_usd))


def _deadline(details: RequestDetails, zone: tzinfo | None, now: datetime) -> str:
    silence = _silence(details)
    if details.deadline is None:
        return f"None. {silence}"
    left = duration(max((details.deadline - now).total_seconds(), 0.0))
    return f"{left} left, until {day_and_clock(details.deadline.astimezone(zone))}. {silence}"


def _brief_deadline(details: RequestDetails, zone: tzinfo | None, now: datetime) -> str:
    after = "the agent stays paused" if details.own else "it does not run"
    if details.deadline is None:
        return f"without an answer, {after}"
    at = details.deadline.astimezone(zone)
    return f"until {near(at, now.astimezone(zone))} {at:%Z}, else {after}"


def _asked(details: RequestDetails, zone: tzinfo | None) -> str:
    asked, again = day_and_clock(details.asked_at.astimezone(zone)), details.repeats
    return f"{asked}, repeated {times(again)}" if again else asked


def times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _earlier(row: RequestEnded, details: RequestDetails, zone: tzinfo | None) -> str:
    """Return an earlier answer and, if it was for a different action, that action."""
    same = (row.text, row.path, row.paths) == (details.text, details.path, details.paths)
    about = "" if same else f" (another action: {quoted(row.text or row.place or row.action)})"
    at = "" if row.decided_at is None else f"{day_and_clock(row.decided_at.astimezone(zone))}: "
    by = f" by {row.decided_by} via {row.decided_via}" if row.decided_by else ""
    took_s = row.response_time_seconds
    took = "" if took_s is None else f" after {duration(took_s)}"
    return f"{at}{row.decision}{about}{by}{took}{f': {row.words}' if row.words else ''}"


def _diffs(said: Mapping[str, object]) -> Iterator[CardField]:
    for name, words in _named_diffs(said).items():
        lines = tuple(words.split("\n"))
        label = f"a diff of {len(words.splitlines()):,} lines"
        yield CardField(
            name=f"context.{name}",
            title=name,
            lines=lines,
            agent=True,
            bound=True,
            diff=True,
            label=label,
        )


def _named_diffs(said: Mapping[str, object]) -> dict[str, str]:
    found = {
        name: words
        for name, words in said.items()
        if isinstance(words, str) and words and (name in _DIFFS or holds_diff(words))
    }
    return dict(list(found.items())[:MAX_DIFFS])


def _rest(name: str, title: str, said: Mapping[str, object]) -> Iterator[CardField]:
    """Yield the entries of an object that have no separate field."""
    elsewhere = {*_RECIPIENTS, *_named_diffs(said)} if name == "context" else {*_RECIPIENTS}
    rest = {key: value for key, value in said.items() if key not in elsewhere or not value}
    yield from _said(name, title, rest, bound=True, label=f"{title} ({', '.join(rest)})")


def _plain_json(said: object) -> object:
    """Return an agent's JSON as objects. JSON that is not journalled yet is still raw."""
    return msgspec.json.decode(said) if isinstance(said, msgspec.Raw) else said


def _known(
    name: str,
    title: str,
    lines: Iterator[str] | Sequence[str],
    *,
    bound: bool = False,
    needed: bool = False,
    brief: str = "",
) -> Iterator[CardField]:
    """Yield a field with safetyd's words, unless it has no lines."""
    said = tuple(filter(None, lines))
    if said:
        yield CardField(name=name, title=title, lines=said, bound=bound, needed=needed, brief=brief)


def _said(
    name: str, title: str, value: object, *, bound: bool = False, label: str = "", gist: str = ""
) -> Iterator[CardField]:
    """Yield a field with the agent's words, if the agent sent any."""
    if value is None or value in ("", [], {}):
        return
    lines = tuple(_words(value).split("\n"))
    yield CardField(
        name=name, title=title, lines=lines, agent=True, bound=bound, label=label, gist=gist
    )


def _words(said: object) -> str:
    if isinstance(said, Mapping):
        return "\n".join(_entry(_on_one_line(str(name)), value) for name, value in said.items())
    if isinstance(said, list):
        return "\n".join(map(_words, said))
    return said if isinstance(said, str) else json.dumps(said)


def _on_one_line(text: str) -> str:
    """Escape line breaks, so that one path or name cannot look like two."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _entry(name: str, value: object) -> str:
    """Return `name: value`. Indent a value of several lines below its name."""
    lines = _words(value)
    if "\n" in lines or isinstance(value, Mapping):
        return f"{name}:\n{indent(lines, '  ')}"
    return f"{name}: {lines}"


def marked_parts(text: str, parts: Sequence[CommandPart]) -> list[Piece]:
    """Split a text into pieces. Each piece says whether it is one of `parts`.

    If the parts do not fit the text (for example because it is masked), return it as one piece.
    """
    encoded = text.encode("utf-8", "replace")
    edges = sorted({0, len(encoded), *(edge for part in parts for edge in (part.start, part.end))})
    if edges[0] < 0 or edges[-1] > len(encoded):
        return [(text, False)]
    pieces = [
        (encoded[start:end], any(part.start <= start and end <= part.end for part in parts))
        for start, end in pairwise(edges)
    ]
    try:
        found = [
            (b"".join(piece for piece, _ in same).decode(), marked)
            for marked, same in groupby(pieces, lambda piece: piece[1])
        ]
    except UnicodeDecodeError:  # a part begins or ends inside a character
        return [(text, False)]
    return found if "".join(piece for piece, _ in found) == text else [(text, False)]


def _pieces_of_lines(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Return the pieces of each line. Split pieces that span several lines."""
    lines: list[list[Piece]] = [[]]
    for piece, mark in pieces:
        first, *others = piece.split("\n")
        lines[-1].append((first, mark))
        lines += ([(other, mark)] for other in others)
    return lines


def cut_middle(text: str, most: int) -> tuple[str, int]:
    """Cut the middle out of a text. Return about `most` characters, and how many were cut.

    Both ends stay, because the end of a command may be the most important part.
    """
    if len(text) <= most:
        return text, 0
    end = most // 3
    begin = most - end
    cut = len(text) - begin - end
    gap = f" … {cut:,} characters … "
    return f"{text[:begin]}{gap}{text[len(text) - end :]}" if most else gap.strip(), cut
