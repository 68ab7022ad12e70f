"""Grants, offers of grants, and suggested rules as text."""

from collections.abc import Iterator

from safetyd.cards.request_details import GrantOffer
from safetyd.console.render.layout import indented, left_out, names, usd, when
from safetyd.console.terminal_text import plain, several
from safetyd.operators.contract.grant_contract import (
    GrantRow,
    GrantsAnswer,
    SuggestedGrant,
    SuggestionRow,
    SuggestionsAnswer,
)


def grants(view: GrantsAnswer) -> str:
    if not view.grants:
        return "No active grants."
    parts = ["\n".join(_grant(row)) for row in view.grants]
    return "\n\n".join((*parts, *left_out(view.left_out, "grant")))


def _grant(row: GrantRow) -> Iterator[str]:
    kind = plain(row.type) if row.type else "any type"
    left = f"{row.left} of {several(row.uses, 'use')} left"
    yield f"{plain(row.id)} {plain(row.agent)}: {kind}, {left}, until {when(row.until)}"
    yield from indented(_facts(row))


def _facts(row: GrantRow) -> Iterator[tuple[str, str]]:
    if row.project:
        yield "project", plain(row.project)
    if row.rules:
        yield "overrides", names(row.rules)
    if row.wide:
        yield "WIDE", "it allows any text. Revoke it, or replace it with a grant that has --text."
    if row.seen is not None:
        request = plain(row.request_id)
        yield "only", f"the action of {request}: {plain(row.seen, 200) or '(no text)'}"
    if row.text is not None:
        yield "text", plain(row.text, 2000)
    if row.program is not None:
        yield "program", plain(row.program)
    if row.folder is not None:
        yield "folder", plain(row.folder, 2000)
    if row.paths:
        yield "paths", names(row.paths)
    if row.max_usd is not None:
        yield "cost", f"{usd(row.spent_usd)} of {usd(row.max_usd)}"
    yield "granted by", f"{plain(row.by)}, {when(row.at)}: {plain(row.reason, 2000)}"
    yield from _origin(row)


def _origin(row: GrantRow) -> Iterator[tuple[str, str]]:
    if origin := row.suggested:
        said = f"{several(origin.approved, 'approval')} since {when(origin.since)}"
        yield "suggested", f"after {said}; the first denial ends it ({plain(origin.suggestion)})"


def suggestions(view: SuggestionsAnswer) -> str:
    """Return suggested grants with their numbers, then offers of grants and rules to paste."""
    if not view.suggestions:
        return "No suggestions: no kind of request was answered the same way often enough."
    rows = list(enumerate(view.suggestions, 1))
    grants = [_numbered(number, row) for number, row in rows if row.id]
    rules = [_suggestion(row) for _, row in rows if not row.command]
    offers = [_offered(row) for _, row in rows if row.command and not row.id]
    parts = ["To make a suggested grant, run `safetyd suggestions apply N`:"] if grants else []
    parts += map("\n".join, grants)
    parts += ["To apply a rule, add it to the configuration:"] if rules else []
    parts += map("\n".join, rules)
    parts += ["To allow further actions, approve the next request with a grant:"] if offers else []
    parts += map("\n".join, offers)
    return "\n\n".join((*parts, *left_out(view.left_out, "suggestion")))


def to_apply(row: SuggestionRow) -> str:
    """Return everything that a suggested grant contains, and why it is suggested."""
    since = f"from {when(row.first_at)} to {when(row.last_at)}"
    said = f"A grant for {plain(row.agent)}: {plain(row.type)}, {plain(row.reason)}, {since}"
    return "\n".join((said, *indented(_terms(row.grant))))


def _numbered(number: int, row: SuggestionRow) -> Iterator[str]:
    yield f"{number}. {plain(row.agent)}: {plain(row.type)}, {plain(row.reason)} ({plain(row.id)})"
    yield from indented(_terms(row.grant))


def _terms(grant: SuggestedGrant | None) -> Iterator[tuple[str, str]]:
    if grant is None:
        return
    if grant.project:
        yield "project", plain(grant.project)
    if grant.cwd:
        yield "folder", plain(grant.cwd, 2000)
    yield "shape", plain(grant.shape, 500)
    yield "text", plain(grant.text, 2000)
    yield "overrides", names(grant.rules)
    ends = "or at the first denial"
    yield "ends", f"after {several(grant.uses, 'use')}, {when(grant.until)}, {ends}"


def _suggestion(row: SuggestionRow) -> Iterator[str]:
    project = f" in {plain(row.project)}" if row.project else ""
    since = f"from {when(row.first_at)} to {when(row.last_at)}"
    yield f"# {plain(row.agent)}: {plain(row.type)}{project}, {plain(row.reason)}, {since}"
    yield from (plain(line, 2000) for line in row.toml.split("\n"))


def _offered(row: SuggestionRow) -> Iterator[str]:
    yield f"# {plain(row.agent)}: {plain(row.type)}, {plain(row.reason, 500)}"
    yield plain(row.command)


def grant_offer(offer: GrantOffer) -> Iterator[str]:
    """Yield what a grant covers, and how such requests were answered in the last week."""
    yield f"Covers: {plain(offer.shape)}"
    yield f"In the last week it would have covered {_answered(offer)}."


def program_offer(offer: GrantOffer) -> Iterator[str]:
    """Yield how to grant the program of a request, if the program is unknown."""
    if offer.program:
        program = plain(offer.program)
        yield f"{program} is an unknown program. --program covers it with any arguments."


def _answered(offer: GrantOffer) -> str:
    approved, denied = offer.approved, offer.denied
    if approved and denied:
        return f"{several(approved + denied, 'request')}: {approved} approved, {denied} denied"
    if approved or denied:
        how = "approved" if approved else "denied"
        return f"{several(approved or denied, 'request')}, all {how}"
    return "no request"
