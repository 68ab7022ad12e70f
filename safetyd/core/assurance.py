"""Which ways are sure enough to approve a request. Every way may deny."""

from typing import Final

from safetyd.core.proposal import Proposal, Risk
from safetyd.core.requests import Request, diff_of

# What a person does at a terminal of safetyd, with an operator's key.
AT_A_TERMINAL: Final = frozenset({"cli", "tui"})
# Money, and who may do what: nobody should approve these by what a message carries.
TERMINAL_ONLY: Final = frozenset(
    {"purchase", "billing_change", "revoke_token", "modify_permissions"}
)
SMS_CHARS: Final = 60  # of a text, beside all else that an SMS says
_RISKS: Final[tuple[Risk, ...]] = ("low", "medium", "high", "prohibited")


def approvable(request: Request, via: str, approve_via: tuple[str, ...]) -> bool:
    """Say whether a request may be approved this way: `cli`, `tui`, `link:email`, `sms` and so on.

    `approve_via` are the ways that its type permits, all if it is empty. It only restricts: what
    is prohibited, or of the types above, is approved at a terminal or not at all.
    """
    way = via.partition(":")[0]
    if approve_via and way not in approve_via:
        return False
    return way in AT_A_TERMINAL or not _needs_terminal(request)


def risk_within(risk: Risk, most: Risk) -> bool:
    """Say whether a risk is no higher than the highest that is permitted."""
    return _RISKS.index(risk) <= _RISKS.index(most)


def says_all(proposal: Proposal) -> bool:
    """Say whether its text is all that would be done, so that who reads it has read everything."""
    beside = proposal.target, proposal.paths, proposal.remote, proposal.extra, diff_of(proposal)
    # Messages leave out what cannot be seen.
    seen = proposal.text.replace("\n", "").isprintable()
    return bool(proposal.text) and seen and not any(beside)


def fits_sms(proposal: Proposal) -> bool:
    """Say whether an SMS can show all that would be done."""
    text = proposal.text
    short = len(text) <= SMS_CHARS and text.isascii() and text.isprintable()
    # The alphabet of SMS has all of ASCII but this one.
    return short and "`" not in text and says_all(proposal)


def shown_by_sms(request: Request) -> bool:
    """Say whether an SMS can show all that an approval of this request would permit."""
    return not request.asked.permission and fits_sms(request.asked.proposal)


def _needs_terminal(request: Request) -> bool:
    return request.asked.risk == "prohibited" or request.asked.type in TERMINAL_ONLY
