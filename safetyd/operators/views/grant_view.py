"""Grants, and grants and rules suggested from past answers."""

from datetime import datetime
from typing import cast

import msgspec

from safetyd.core.approvals.approved_shapes import MONTH, USES, GrantSuggestion
from safetyd.core.approvals.grants import Grant
from safetyd.core.approvals.session_offers import SessionOffer, pending_like, session_offers
from safetyd.core.approvals.suggestions import Suggestion
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.request_events import Learned
from safetyd.core.messages.money import usd
from safetyd.core.shell.shape import in_words
from safetyd.operators.contract.grant_contract import (
    GrantOrigin,
    GrantRow,
    GrantsAnswer,
    SuggestedGrant,
    SuggestionRow,
    SuggestionsAnswer,
)
from safetyd.operators.views.paging import fitting


def grants(state: EngineState, moment: Moment) -> GrantsAnswer:
    """Return the grants in force."""
    live = [grant for grant in state.grants.live() if not grant.over(moment.at, moment.t)]
    rows = fitting(map(_grant, live))
    return GrantsAnswer(ok=True, grants=rows, left_out=len(live) - len(rows))


def suggestions(state: EngineState, moment: Moment) -> SuggestionsAnswer:
    """Return suggested grants and rules with the answers that support them."""
    grants = state.approved_shapes.suggestions(moment.at)
    same = {one.approvals.same for one in grants}
    taken = [rule.name for rule in state.policy.rules.custom]
    rules = state.past_answers.suggestions(taken)
    found = [_suggested_grant(one, moment) for one in grants]
    found += [_suggestion(one) for one in rules if one.answers.same not in same]
    found += [_offer(state, one) for one in session_offers(state.approvals, state.reader)]
    rows = fitting(found)
    return SuggestionsAnswer(ok=True, suggestions=rows, left_out=len(found) - len(rows))


def _grant(grant: Grant) -> GrantRow:
    made = grant.made
    return GrantRow(
        id=made.id,
        agent=made.agent,
        type=made.type,
        project=made.project,
        rules=made.rules,
        text=made.text,
        seen=None if made.seen is None else made.seen.words,
        wide=made.wide,
        paths=made.paths,
        program=made.program or None,
        folder=made.folder or None,
        uses=made.uses,
        left=grant.left,
        until=made.until,
        max_usd=made.max_usd,
        spent_usd=usd(grant.spent_nano),
        reason=made.reason,
        by=made.by,
        via=made.via,
        at=made.at,
        request_id=made.request_id or None,
        suggested=_origin(made.learned) if made.learned else msgspec.UNSET,
    )


def _origin(learned: Learned) -> GrantOrigin:
    return GrantOrigin(
        suggestion=learned.suggestion, approved=learned.approved, since=learned.since
    )


def _suggested_grant(found: GrantSuggestion, moment: Moment) -> SuggestionRow:
    known, learned = found.approvals, found.learned
    return SuggestionRow(
        then="grant",
        agent=known.agent,
        type=known.type,
        project=known.project,
        approved=learned.approved,
        denied=0,
        first_at=learned.since,
        last_at=known.approved[-1],
        reason=f"approved {learned.approved} times and never denied",
        toml="",
        command=f"safetyd suggestions apply {found.id}",
        id=found.id,
        grant=SuggestedGrant(
            agent=known.agent,
            type=known.type,
            project=known.project,
            cwd=known.cwd,
            shape=in_words(known.shape),
            text=found.text,
            rules=known.rules,
            uses=USES,
            until=moment.at + MONTH,
        ),
    )


def _suggestion(found: Suggestion) -> SuggestionRow:
    count = found.answers
    return SuggestionRow(
        then=found.then,
        agent=count.agent,
        type=count.type,
        project=count.project,
        approved=count.approved,
        denied=count.denied,
        first_at=cast("datetime", count.first_at),  # every count has at least one answer
        last_at=cast("datetime", count.last_at),
        reason=found.reason,
        toml=found.toml,
    )


def _offer(state: EngineState, offer: SessionOffer) -> SuggestionRow:
    """Return a grant that would have covered the approvals of a session."""
    asked = offer.newest.asked
    pending = pending_like(offer, state.approvals, state.reader)
    id_ = next((request.id for request in pending), "ID")
    answered = offer.newest.answer.at if offer.newest.answer else asked.at
    return SuggestionRow(
        then="grant",
        agent=asked.agent,
        type=asked.type,
        project=asked.proposal.project,
        approved=offer.approved,
        denied=0,
        first_at=asked.at,
        last_at=answered,
        reason=f"approved {offer.approved} times in one session: {offer.words}",
        toml="",
        command=f"safetyd approve {id_} --grant --for 8h",
    )
