"""Which button labels commit, and which only name something."""

from pathlib import Path
from typing import Final

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.verdict import ALLOWED, Severity
from safetyd.core.policy import Policy
from tests.core.guards.gate.gate_rig import GateRig
from tests.story import ask, propose

CORPUS: Final = Path(__file__).parents[3] / "corpus" / "buttons"
ASK: Final = """
Buy now | Buy | BUY IT NOW | Buy for $9.99 | $3.99 Buy | Yes, buy it | Tap to buy | Preorder now
Rent HD | Donate | Place your order | Place order | Complete purchase | Review and place order
Order now | Order again | Finalize booking | Check out | Check out securely | Pay now
Proceed to checkout | Confirm purchase | Complete my booking | Order | Book now | Book a table
Reserve | Reserve seats | Upgrade to Pro | Upgrade | Renew membership | Top up | Add funds
Subscribe | Subscribe and save | Start free trial | Start your 30-day free trial
Try 7 days trial | Join Prime | Agree and subscribe | Activate subscription | Become a member
Unsubscribe | Opt out | Cancel order | Cancel my subscription | Cancel booking | End membership
Close account | Return items | Request a refund | Publish review | Publish | Save & publish
Post | Post comment | Post your review | Tweet | Share publicly | Go live | Merge pull request
Squash and merge pull request | Deploy to production | Launch campaign | Transfer | Transfer $50
Withdraw funds | Sell shares | Cash out | Sign contract | Accept offer | Sign and return
Erase disk | Discard draft | Empty trash | Clear browsing data | Send | Submit
Click on the "Buy now" button
"""
PASS: Final = """
Cancel | Close | Next | Back | Search | OK | Done | Save | Save draft | Edit | Open | Continue
Skip | Got it | Help | Show order | Order history | My orders | View order details | Sort order
Order by price | Track order | Order summary | Add to cart | Add to basket | View cart
Add to wishlist | Where to buy | Buying guide | How to cancel order | Best Buy | Cancel upload
Cancel editing | Cancel search | Close window | Close menu | Close dialog | Return to order
End of list | Manage subscription | Subscriptions | Subscription settings | Trial balance
Get started | Start | Start date | Published articles | Publisher | Posts | Post code
Postal address | Share | Reply | Replies | Comments | Upgrade guide | Renewable energy | Books
Bookmarks | Book reviews | Booking details | Reserved seats | Transfers | Transfer history
Withdrawals | Seller dashboard | Deployments | Deployment log | Merge conflicts | Sign in
Sign out | Sign up | Accept cookies | Accept all | Clear filters | Clear | Empty state
Discarded drafts | Join meeting | Join now | Check out our blog | Check outlook
Reorder columns | Log in | Play | Pause | Download
"""


def labels(table: str) -> list[str]:
    return [label.strip() for line in table.strip().splitlines() for label in line.split("|")]


def corpus(name: str) -> list[str]:
    lines = (CORPUS / f"{name}.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("label", [*labels(ASK), *corpus("lasting")])
def test_a_button_that_commits_needs_approval(label: str) -> None:
    verdict = GateRig().asks("click", target=Target(label=label))

    assert verdict.decision is Severity.ASK
    assert verdict.rule.startswith("gate.irreversible:")
    assert GateRig().asks("click", text=label).decision is Severity.ASK


@pytest.mark.parametrize("label", [*labels(PASS), *corpus("harmless")])
def test_a_button_that_only_leads_on_passes(label: str) -> None:
    assert GateRig().asks("click", target=Target(label=label)) is ALLOWED


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("git_commit", "checkout: step 40"),
        ("git_commit", "remove the old format, reset counters"),
        ("model_call", "how do I submit a form?"),
        ("memory_write", "she wants to pay by card and to delete the rest"),
        ("dispatch", "confirm that nothing is broken"),
    ],
)
def test_text_that_is_only_stored_or_sent_to_a_model_is_harmless(type_: str, text: str) -> None:
    assert GateRig().asks(type_, text=text) is ALLOWED


def test_a_text_that_is_stored_may_still_not_hold_a_destroying_command() -> None:
    assert GateRig().asks("git_commit", text="drop table users").decision is Severity.BLOCK


def test_a_word_inside_a_long_option_is_no_dangerous_word() -> None:
    engine = Engine(Policy())

    drains = ask(
        engine, propose(0, type="run_shell", text="kubectl drain n --delete-emptydir-data")
    )
    syncs = ask(engine, propose(1, id="p2", type="run_shell", text="rsync -a --delete a/ host:b/"))

    assert "gate.blocklist:delete" not in drains.triggered_rules
    assert "gate.blocklist:delete" in syncs.triggered_rules
