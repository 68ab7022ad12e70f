"""For any story: no budget is exceeded, nothing spent is lost, and a restart changes nothing.

`Naive` is the simplest form of the rule: it stores every amount ever reserved or spent, and adds
them up each time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.decision_events import Decided, Overdue, Proposed, SessionClosed, Settled
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import BudgetMarked, Paused, Unpaused
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.messages.money import NANO
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.telemetry import SessionEnded
from safetyd.core.messages.verdict import Severity
from tests.core.guards.budget.budget_rig import BudgetRig, cost, unpause
from tests.examples import examples
from tests.story import NOON, propose, report, tick

CONFIG = BudgetConfig(
    chain_usd=5, session_usd=6, day_usd=22, agent_usd=16, model_usd=9, default_cost_usd=0.25
)
OWN = {"ops": 8.0}
LIMITS = {"budget.chain": 5.0, "budget.day": 22.0, "budget.agent": 16.0, "budget.model": 9.0}
SHARES = {"day": 11.0, "model": 4.5}  # of what is reported beyond reservations
KEPT = 11.0  # for the other agent, until it has used as much
# Free actions pass these.
OF_DAY = {"budget.day", "budget.agent", "budget.model", "budget.share", "budget.kept"}
DAY_S = 86_400
LONG_AGO = NOON - timedelta(days=365)  # any day that has begun is later

agents = st.sampled_from(["code", "ops"])
ids = st.sampled_from([f"p{n}" for n in range(30)])
sessions = st.sampled_from([None, "s", "r"])
chains = st.sampled_from([None, "c", "d"])
models = st.sampled_from([None, "o4", "gpt-5.2"])
amounts = st.sampled_from([None, 0, 0.5, 1, 2.5, 4])
prices = st.sampled_from([None, None, 0, NANO, 3 * NANO])
gaps = st.sampled_from([0, 1, 70])  # an answer is remembered for 60 s
proposals = st.tuples(
    agents,
    st.builds(
        Proposal,
        type=st.just("read_file"),
        id=ids,
        cost_usd=amounts,
        session=sessions,
        chain=chains,
        model=models,
        text=st.sampled_from(["", "", "", "rm -rf /"]),
    ),
)


@dataclass
class Item:
    """An amount in dollars, and where it counts."""

    agent: str
    session: tuple[str, int]
    chain: str | None
    model: str | None
    day: int
    usd: float
    open: bool = True
    uncounted: dict[str, float] = field(default_factory=dict)  # in the common budgets


@dataclass
class Naive:
    items: list[Item] = field(default_factory=list)
    open: dict[tuple[str, str], Item] = field(default_factory=dict)
    under_way: set[tuple[str, str]] = field(default_factory=set)  # also what costs nothing
    ended: dict[tuple[str, str], int] = field(default_factory=dict)
    heard_t: dict[tuple[str, str], float] = field(default_factory=dict)
    paused: dict[str, tuple[str, int]] = field(default_factory=dict)
    claims: dict[tuple[str, str, int], float] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)  # when an agent was allowed something
    raised: dict[tuple[str, str, int], float] = field(default_factory=dict)
    day: int = 0

    def session(self, agent: str, name: str | None) -> tuple[str, int]:
        return name or "", self.ended.get((agent, name or ""), 0)

    def refuses(self, event: Proposed | Decided) -> set[str]:
        proposal, agent = event.proposal, event.agent
        need = larger(proposal.cost_usd, event.priced_nano, 0.25)
        session = self.session(agent, proposal.session)
        own = OWN.get(agent, 6) + self.raised.get((agent, *session), 0)
        limits = {**LIMITS, "budget.session": own}
        used = self.used(event.at, event.t, agent, session, proposal.chain, proposal.model)
        free = OF_DAY if not need and proposal.model is None else set()
        refused = {
            rule
            for rule, sum_ in used.items()
            if sum_ >= limits[rule] or sum_ + need > limits[rule]
        }
        day = max(self.day, event.at.toordinal())
        of_model = proposal.model and self.claims.get((agent, proposal.model, day), 0)
        if (
            self.claims.get((agent, "", day), 0) >= SHARES["day"]
            or (of_model or 0) >= SHARES["model"]
        ):
            refused.add("budget.share")
        kept, spent = self.kept(agent, day, event.t), used["budget.day"]
        if kept and "budget.day" not in refused and spent + max(need, 0.0001) > 22 - kept:
            refused.add("budget.kept")
        return refused - free

    def kept(self, agent: str, day: int, t: float) -> float:
        """Return what is kept of the day for the other agent."""
        (other,) = {"code", "ops"} - {agent}
        if t >= self.seen.get(other, -DAY_S) + DAY_S:
            return 0
        return max(KEPT - total(i for i in self.items if (i.agent, i.day) == (other, day)), 0)

    def used(
        self,
        at: datetime,
        t: float,
        agent: str,
        session: tuple[str, int],
        chain: str | None,
        model: str | None,
    ) -> dict[str, float]:
        today = [item for item in self.items if item.day == max(self.day, at.toordinal())]
        mine = [item for item in self.items if item.agent == agent]
        used = {
            "budget.session": total(item for item in mine if item.session == session),
            "budget.day": total(today, "day"),
            "budget.agent": total(item for item in today if item.agent == agent),
        }
        if chain is not None:
            forgotten = self.forgets(agent, chain, t)
            used["budget.chain"] = total(i for i in mine if i.chain == chain and not forgotten)
        if model is not None:
            used["budget.model"] = total((i for i in today if i.model == model), "model")
        return used

    def forgets(self, agent: str, chain: str, t: float) -> bool:
        held = total(i for i in self.items if (i.agent, i.chain) == (agent, chain) and i.open)
        return not held and self.heard_t.get((agent, chain), t) + DAY_S <= t

    def hears(self, event: Event) -> None:
        match event:
            case Decided(first=True):
                self.decided(event)
            case Settled():
                self.settled(event)
            case Overdue():
                for id_ in event.ids:
                    self.under_way.discard((event.agent, id_))
                    if (item := self.open.pop((event.agent, id_), None)) is not None:
                        item.open = False
            case SessionClosed():
                key = event.agent, event.session
                self.ended[key] = self.ended.get(key, 0) + 1
            case Unpaused(agent=agent) if "budget" in event.sources and agent in self.paused:
                key3 = (agent, *self.paused.pop(agent))
                self.raised[key3] = self.raised.get(key3, 0) + OWN.get(agent, 6)

    def decided(self, event: Decided) -> None:
        proposal, agent = event.proposal, event.agent
        refused = self.refuses(event)
        if event.decision is Severity.ALLOW and event.t >= self.seen.get(agent, -60) + 60:
            self.seen[agent] = event.t
        if self.leaves_all_as_it_is(event):
            assert not refused
            return
        self.day = max(self.day, event.at.toordinal())
        self.message(agent, proposal.chain, event.t)
        session = self.session(agent, proposal.session)
        if "budget.session" in refused and event.decision is Severity.ASK:
            self.paused.setdefault(agent, session)
        if event.decision is Severity.ALLOW:
            assert not refused
            if (before := self.open.pop((agent, event.id), None)) is not None:
                before.open = False
            self.under_way.add((agent, event.id))
            need = larger(proposal.cost_usd, event.priced_nano, 0.25)
            if need:  # else what it costs after all is money of the day on which that is known
                item = Item(agent, session, proposal.chain, proposal.model, self.day, need)
                self.items.append(item)
                self.open[agent, event.id] = item

    def leaves_all_as_it_is(self, event: Decided) -> bool:
        """Return whether it is allowed, free and new: then it starts no day."""
        proposal, known = event.proposal, (event.agent, event.id) in self.under_way
        free = not larger(proposal.cost_usd, event.priced_nano, 0.25) and proposal.chain is None
        return event.decision is Severity.ALLOW and free and not known

    def settled(self, event: Settled) -> None:
        self.day = max(self.day, event.at.toordinal())
        self.message(event.agent, event.chain, event.t)
        self.under_way.discard((event.agent, event.id or ""))
        item = self.open.pop((event.agent, event.id or ""), None)
        if item is None:
            session = self.session(event.agent, event.session)
            item = Item(event.agent, session, event.chain, event.model, self.day, 0)
            self.items.append(item)
        before = item.usd
        item.usd = larger(event.cost_usd, event.priced_nano, before)
        item.model = item.model or event.model
        item.open = False
        self.claim(item, item.usd - before, event)

    def claim(self, item: Item, beyond: float, event: Settled) -> None:
        """Count what no price explains only up to the shares, and nothing that is kept."""
        if beyond <= 0:
            return
        priced_nano = event.priced_nano
        priced = (priced_nano or 0) / NANO
        room = SHARES["day"] - self.claims.get((item.agent, "", self.day), 0)
        if priced and item.usd <= 10 * priced and beyond <= room:
            if item.day == self.day and (kept := self.kept(item.agent, self.day, event.t)):
                today = (i for i in self.items if i.day == self.day and i is not item)
                left = 22 - total(today, "day") - (item.usd - beyond) - kept
                cut = beyond - min(beyond, max(left, 0))
                item.uncounted = {"day": cut, "model": cut}
            return
        for of, name in (("day", ""), ("model", item.model)):
            if name is None or item.day != self.day:
                continue
            counted = beyond
            for whose in (item.agent, "all"):
                claimed = self.claims.get((whose, name, self.day), 0)
                counted = min(counted, max(SHARES[of] - claimed, 0))
                self.claims[whose, name, self.day] = claimed + counted
            item.uncounted[of] = beyond - counted

    def message(self, agent: str, chain: str | None, t: float) -> None:
        if chain is None:
            return
        if self.forgets(agent, chain, t):
            for item in self.items:
                if (item.agent, item.chain, item.open) == (agent, chain, False):
                    item.chain = None
        self.heard_t[agent, chain] = t


def larger(usd: float | None, nano: int | None, neither: float) -> float:
    priced = None if nano is None else nano / NANO
    return max((given for given in (usd, priced) if given is not None), default=neither)


def total(items: Iterable[Item], of: str = "") -> float:
    return sum(item.usd - item.uncounted.get(of, 0) for item in items)


class Story(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.t = 0.0
        self.wall_s = 0.0
        self.shop = BudgetRig(CONFIG, OWN)
        self.naive = Naive()
        self.journal: list[bytes] = []
        self.spent: dict[tuple[str, ...], int] = {}

    def happens(self, event: Event, seconds: float = 1) -> list[Event]:
        self.t += seconds
        event.t = self.t
        event.at += timedelta(seconds=self.t + self.wall_s)
        caused = self.shop.play(event)
        for happened in caused:
            self.naive.hears(happened)
            if isinstance(happened, SessionClosed):
                self.spent.pop(("session", happened.agent, happened.session), None)
        self.journal += [encode(happened) for happened in caused]
        return caused

    @rule(wanted=st.lists(st.tuples(proposals, prices), min_size=1, max_size=6), seconds=gaps)
    def fan_out(self, wanted, seconds):
        self.t += seconds
        for (agent, proposal), price in wanted:
            event = Proposed(
                at=NOON,
                t=0,
                agent=agent,
                proposal=proposal,
                digest=repr(proposal),
                priced_nano=price,
            )
            was_paused = set(self.naive.paused)
            caused = self.happens(event, 0)
            paused = {happened.agent for happened in caused if isinstance(happened, Paused)}
            assert paused == self.naive.paused.keys() - was_paused

    @rule(agent=agents, usd=amounts, session=sessions, chain=chains, model=models)
    def look(self, agent, usd, session, chain, model):
        """A dry run says exactly what the rule says, live and after a restart."""
        event = propose(
            0, agent, cost_usd=usd, session=session, chain=chain, model=model, dry_run=True
        )
        expected = self.naive.refuses(self.now(event))
        for shop in (self.shop, self.replayed()):
            decision = shop.engine._judge(event, first=False)
            assert {rule for v in decision.verdicts for rule in (v.rule, *v.also)} == expected

    def now(self, event: Proposed) -> Proposed:
        event.t = self.t
        event.at += timedelta(seconds=self.t + self.wall_s)
        return event

    @rule(told=st.lists(st.tuples(agents, ids, amounts, prices, st.booleans(), models), max_size=4))
    def outcomes(self, told):
        for agent, id_, usd, price, ok, model in told:
            self.happens(cost(0, id_, usd, agent, priced_nano=price, ok=ok, model=model))

    @rule(agent=agents, usd=amounts, session=sessions, model=models)
    def outcome_of_nothing(self, agent, usd, session, model):
        self.happens(cost(0, None, usd, agent, session=session, model=model))

    @rule(agent=agents, session=st.sampled_from(["s", "r"]))
    def end_session(self, agent, session):
        self.happens(report(0, SessionEnded(session=session), agent))

    @rule(agent=agents, source=st.sampled_from(["budget", "operator"]))
    def unpause(self, agent, source):
        self.happens(unpause(0, source, agent=agent))

    @rule(seconds=st.sampled_from([1, 1800, 3600, DAY_S]), ticks=st.booleans())
    def wait(self, seconds, ticks):
        self.t += seconds
        if ticks:
            self.happens(tick(0))

    @rule(seconds=st.sampled_from([-50_000, 50_000]))
    def wall_clock_steps(self, seconds):
        self.wall_s += seconds

    @rule()
    def restart(self):
        self.shop = self.replayed()

    def replayed(self) -> BudgetRig:
        shop = BudgetRig(CONFIG, OWN)
        shop.engine.replay(decode(line) for line in self.journal)
        return shop

    @invariant()
    def journal_is_the_only_memory(self):
        assert self.replayed().budget.save()() == self.shop.budget.save()()

    @invariant()
    def sums_are_those_of_every_amount_ever(self) -> None:
        items = self.naive.items
        for standing in self.shop.budget.standings(LONG_AGO):
            match standing.scope:
                case "share":
                    name = standing.id.partition("/")[2]
                    claimed = self.naive.claims.get((str(standing.agent), name, self.naive.day), 0)
                    assert standing.spent / NANO == claimed
                    continue
                case "day":
                    these = [i for i in items if i.day == self.naive.day]
                case "agent":
                    these = [
                        i for i in items if (i.agent, i.day) == (standing.agent, self.naive.day)
                    ]
                case "model":
                    these = [i for i in items if (i.model, i.day) == (standing.id, self.naive.day)]
                case "session":
                    session = self.naive.session(str(standing.agent), standing.id)
                    these = [i for i in items if (i.agent, i.session) == (standing.agent, session)]
                case "chain":
                    these = [
                        i for i in items if (i.agent, i.chain) == (standing.agent, standing.id)
                    ]
            settled = (i for i in these if not i.open)
            assert standing.spent / NANO == total(settled, standing.scope)
            assert standing.reserved / NANO == total(i for i in these if i.open)

    @invariant()
    def spending_never_shrinks(self):
        for standing in self.shop.budget.standings(LONG_AGO):
            if standing.scope == "chain":
                continue  # begins anew once it is forgotten
            period = () if standing.scope == "session" else (str(self.naive.day),)
            key = (standing.scope, str(standing.agent), standing.id, *period)
            assert standing.spent >= self.spent.get(key, 0)
            self.spent[key] = standing.spent

    @invariant()
    def every_mark_is_made_once(self):
        today = [
            (event.mark, event.scope, event.id, event.at.date())
            for event in map(decode, self.journal)
            if isinstance(event, BudgetMarked) and event.scope == "day"
        ]
        assert len(today) == len(set(today))


def test_what_costs_nothing_begins_no_day():
    story = Story()
    story.fan_out([(("code", Proposal(type="read_file", id="p0", cost_usd=1)), None)], 0)
    story.wall_clock_steps(50_000)

    story.fan_out([(("code", Proposal(type="read_file", id="p1", cost_usd=0)), None)], 0)
    story.sums_are_those_of_every_amount_ever()
    story.wall_clock_steps(-50_000)

    story.look("code", 0.5, None, None, None)
    assert story.shop.reserved("day") == 1


Story.TestCase.settings = examples(0.2, stateful_step_count=30)
TestStory = pytest.mark.req("S1.19")(Story.TestCase)
