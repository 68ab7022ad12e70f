"""Grants, and rules suggested from past answers."""

from datetime import datetime
from typing import cast

from safetyd.core.approvals.grants import Grant
from safetyd.core.approvals.session_offers import SessionOffer, pending_like, session_offers
from safetyd.core.approvals.suggestions import Suggestion
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.messages.money import usd
from safetyd.operators.contract.grant_contract import (
    GrantRow,
    GrantsAnswer,
    SuggestionRow,
    SuggestionsAnswer,
)
from safetyd.operators.views.paging import fitting


def grants(state: EngineState, moment: Moment) -> GrantsAnswer:
    """Return the grants in force."""
    live = [grant for grant in state.grants.live() if not grant.over(moment.at, moment.t)]
    rows = fitting(map(_grant, live))
    return GrantsAnswer(ok=True, grants=rows, left_out=len(live) - len(rows))


def suggestions(state: EngineState, _moment: Moment) -> SuggestionsAnswer:
    """Return suggested rules with the answers that support them."""
    taken = [rule.name for rule in state.policy.rules.custom]
    found = [_suggestion(one) for one in state.past_answers.suggestions(taken)]
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
