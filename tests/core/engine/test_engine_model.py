"""For any story: an engine rebuilt from the journal has the same state and decides the same."""

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.engine_state import Checkpoint
from safetyd.core.events.decision_events import Proposed, Refused, Withheld
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Forgotten
from safetyd.core.guards.gate.gate_config import GateConfig
from safetyd.core.messages.proposal import Observation, Target
from safetyd.core.messages.telemetry import EpisodeEnded, Heartbeat, SessionEnded
from safetyd.core.policy import Configured, Policy
from safetyd.journal.journals import MemoryJournal
from tests.examples import examples
from tests.story import at, outcome, propose, report, resume, stop, tick

agents = st.sampled_from(["code", "ops", "shop"])
ids = st.sampled_from([f"p{n}" for n in range(6)])
digests = st.sampled_from(["sha256:a", "sha256:b"])
types = st.sampled_from(["read_file", "run_shell", "click", "type", "dance"])
texts = st.sampled_from(
    ["", "rm -rf /", "git status", "hunter2", "\uff44\uff45\uff4c\uff45\uff54\uff45 it"]
)
labels = st.sampled_from(["", "Submit Order", "Password", "Next"])
titles = st.sampled_from(["", "Shop", "Cart"])
policies = st.sampled_from(
    [
        Policy(),
        Policy(max_agents=1),
        Policy(profile="coding", gate=GateConfig(loop_threshold=2)),
        Policy(mode="development", gate=GateConfig(loop_counts="states")),
    ]
)


class Story(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.t = 0.0
        self.engine = Engine(Policy())
        self.journal = MemoryJournal()

    def step(self, seconds: float) -> float:
        self.t += seconds
        return self.t

    def wrote(self, events: list[Event]) -> None:
        self.journal.write(events)

    @rule(
        seconds=st.floats(0, 30),
        agent=agents,
        id_=ids,
        digest=digests,
        type_=types,
        text=texts,
        label=labels,
        title=titles,
        dry_run=st.booleans(),
        keyless=st.booleans(),
    )
    def propose(  # noqa: PLR0913, PLR0917
        self, seconds, agent, id_, digest, type_, text, label, title, dry_run, keyless
    ):
        proposed = propose(
            self.step(seconds),
            agent,
            id_,
            type_,
            digest=digest,
            keyless=keyless,
            text=text,
            dry_run=dry_run,
            target=Target(label=label),
            observation=Observation(window_title=title),
        )
        self.same_answer(proposed)
        self.wrote(list(self.engine.decide(proposed)[1]))

    @rule(seconds=st.floats(0, 5), agent=agents, id_=ids, ok=st.booleans())
    def outcome(self, seconds, agent, id_, ok):
        self.wrote(self.engine.handle(outcome(self.step(seconds), id_, ok=ok, agent=agent)))

    @rule(
        seconds=st.floats(0, 5),
        agent=agents,
        telemetry=st.sampled_from(
            [
                Heartbeat(stop_epoch=3),
                Heartbeat(),
                EpisodeEnded(episode="code"),
                SessionEnded(session="s"),
            ]
        ),
    )
    def report(self, seconds, agent, telemetry):
        self.wrote(self.engine.handle(report(self.step(seconds), telemetry, agent)))

    @rule(
        source=st.sampled_from(["operator", "file:/x", "environment"]),
        agent=st.none() | agents,
        stops=st.booleans(),
        epoch=st.integers(1, 9),
    )
    def stop_or_resume(self, source, agent, stops, epoch):
        t = self.step(1)
        event = (
            stop(t, source, agent, epoch) if stops else resume(t, source, agent=agent, epoch=epoch)
        )
        self.wrote(self.engine.handle(event))

    @rule(agent=agents, episode=st.none() | st.just("code"))
    def forget(self, agent, episode):
        t = self.step(1)
        self.wrote(
            self.engine.handle(Forgotten(at=at(t), t=t, agent=agent, by="alice", episode=episode))
        )

    @rule(agent=agents)
    def refuse_and_withhold(self, agent):
        t = self.step(1)
        refused = Refused(at=at(t), t=t, agent=agent, cause="malformed", count=2, example="x")
        withheld = Withheld(at=at(t), t=t, agent=agent, id="p1", why="late")
        self.wrote(self.engine.handle(refused) + self.engine.handle(withheld))

    @rule(seconds=st.floats(0, 20))
    def tick(self, seconds):
        self.wrote(self.engine.handle(tick(self.step(seconds))))

    @rule(policy=policies)
    def reload(self, policy):
        t = self.step(1)
        event = Configured(
            at=at(t), t=t, policy=policy, digest=policy.digest(), version="1", why="reload"
        )
        self.wrote(self.engine.handle(event))

    @rule()
    def crash_and_restore(self):
        encoded = msgspec.msgpack.encode(self.engine.save()())
        self.engine = Engine.restore(msgspec.msgpack.decode(encoded, type=Checkpoint))

    def same_answer(self, proposed: Proposed) -> None:
        assert self.replayed().decide(proposed)[0] == self.copied().decide(proposed)[0]

    def replayed(self) -> Engine:
        fresh = Engine(Policy())
        fresh.replay(self.journal.events())
        return fresh

    def copied(self) -> Engine:
        return Engine.restore(self.engine.save()())

    @invariant()
    def journal_is_the_only_memory(self):
        assert self.replayed().save()() == self.engine.save()()


Story.TestCase.settings = examples(0.1, stateful_step_count=30)
TestStory = pytest.mark.req("S1.38")(Story.TestCase)
