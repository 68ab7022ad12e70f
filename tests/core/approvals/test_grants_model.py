"""No grant is used too often, and the journal rebuilds all grants."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.event import Event
from safetyd.core.events.request_events import Granted, GrantRevoked, GrantUsed
from tests.core.approvals.grant_samples import granted
from tests.core.approvals.queue_story import QueueStory
from tests.examples import examples
from tests.story import at, propose, resume, stop, tick

RESET = "gate.blocklist:reset"
terms = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["push", "run_shell"]),
        "text": st.sampled_from(["^git", "reset"]),
        "max_usd": st.sampled_from([0.0, 1.0]),
        "rules": st.just((RESET,)),
    },
)
steps = st.one_of(
    st.tuples(st.just("grant"), terms, st.integers(1, 3), st.sampled_from([20, 500])),
    st.tuples(
        st.just("propose"),
        st.sampled_from(["push", "run_shell", "click", "send_email", "change_auth"]),
        st.sampled_from(["git reset", "git push", ""]),
        st.sampled_from([None, 0.6]),
    ),
    st.tuples(st.just("answer"), st.booleans()),
    st.tuples(st.just("revoke")),
    st.tuples(st.sampled_from(["stop", "resume", "tick", "restart"])),
)


class Story(QueueStory):
    t = 0.0

    def step(self, what: str, *said: object) -> None:
        self.t += 7
        number = f"{self.t:.0f}"
        match what, said:
            case "grant", (dict() as fields, int(uses), int(span)):
                end = at(self.t + span)
                self.happens(granted(self.t, f"grt_{number}", uses=uses, until=end, **fields))
            case "propose", (str(kind), str(text), cost):
                self.proposes(propose(self.t, id=f"p{number}", type=kind, text=text, cost_usd=cost))
            case "answer", (bool(waits),):
                for request in list(self.engine.approvals.pending())[:1]:
                    self.answers(self.t, request.id, waits=waits)
            case "restart", ():
                self.engine = Engine.restore(self.engine.save()())
            case _:
                self.happens(*self._others(what))

    def _others(self, what: str) -> list[Event]:
        if what == "revoke":
            live = [grant.made.id for grant in self.engine.grants.live()][:1]
            return [
                GrantRevoked(at=at(self.t), t=self.t, grant=id_, agent="code", by="bob")
                for id_ in live
            ]
        others: dict[str, Event] = {
            "stop": stop(self.t),
            "resume": resume(self.t),
            "tick": tick(self.t),
        }
        return [others[what]]


@examples(0.6)
@given(st.lists(steps, max_size=30))
def test_no_grant_is_used_up_twice_and_a_replay_knows_what_is_left(story) -> None:
    queue = Story()

    for step in story:
        queue.step(*step)

    made = {event.id: event for event in queue.journal if isinstance(event, Granted)}
    used = Counter(event.grant for event in queue.journal if isinstance(event, GrantUsed))
    assert all(used[id_] <= made[id_].uses for id_ in used)
    fresh = Engine(queue.engine.policy)
    fresh.replay(decode(encode(event)) for event in queue.journal)
    assert fresh.grants.save()() == queue.engine.grants.save()()
    assert fresh.past_answers.save()() == queue.engine.past_answers.save()()
