"""What a grant covers that was made from a request with a context."""

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.agents.permissions import as_proposal, read_ask
from safetyd.bus.codec import read_proposal
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.decision_events import Proposed
from safetyd.core.messages.decision import Decision
from safetyd.core.policy import Policy
from tests.examples import examples
from tests.operators.test_grant_commands import HOUR, Alice
from tests.story import at

PUSH: Final = {"type": "push", "text": "git push"}
LINT: Final = {"type": "run_shell", "text": "acmectl lint src/a.py"}

names = st.text('ab\u00e9 "', max_size=4)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
contexts = st.dictionaries(names, values, max_size=4)


class Bob(Alice):
    """An operator whose agent sends its messages as JSON."""

    def sent(self, t: float, fields: dict[str, Any]) -> Decision:
        proposal, digest = read_proposal("code", json.dumps(fields).encode(), f"p{t}")
        return self.proposes(_proposed(t, proposal, digest))

    def asked(self, action: str, context: dict[str, Any], resolved: tuple[str, ...] = ()) -> str:
        """Ask for permission, and grant that for a while; return the words of the grant."""
        ask = read_ask(json.dumps({"action": action, "context": context}).encode())
        asking = _proposed(0, *as_proposal("code", ask, "a1"), resolved)
        self.grants(self.proposes(asking, permission=True))
        words: str = self.made()[0].seen.words
        return words

    def grants(self, asked: Decision) -> None:
        (result,) = self.approves(asked.request_id, grant=HOUR)
        assert result["ok"], result

    def starts_again(self, *, checkpoint: bool) -> None:
        if checkpoint:
            self.engine = Engine.restore(self.engine.save()())
            return
        self.journal = [decode(encode(event)) for event in self.journal]
        self.engine = self.replayed()


def _proposed(t: float, proposal: Any, digest: str, resolved: tuple[str, ...] = ()) -> Proposed:
    return Proposed(
        at=at(t), t=float(t), agent="code", proposal=proposal, digest=digest, resolved=resolved
    )


@examples(0.3)
@given(context=contexts, what=st.sampled_from([PUSH, LINT]), checkpoint=st.booleans())
def test_a_grant_covers_the_same_proposal_again(
    context: dict[str, Any], what: dict[str, Any], *, checkpoint: bool
) -> None:
    bob, same = Bob(Policy(profile="coding")), {**what, "context": context}
    bob.grants(bob.sent(0, same))

    bob.starts_again(checkpoint=checkpoint)

    assert [bob.sent(t, same).allowed for t in (1, 2)] == [True, True]
    other = {**what, "context": {**context, "another": 1}}
    assert bob.sent(3, other).status == "pending"


@examples(0.3)
@given(context=contexts, checkpoint=st.booleans())
def test_a_grant_of_what_was_asked_beforehand_covers_what_the_ask_showed(
    context: dict[str, Any], *, checkpoint: bool
) -> None:
    bob, shown = Bob(), {"why": context, "remote": "origin", "text": "git push"}
    bob.asked("push", shown)

    bob.starts_again(checkpoint=checkpoint)

    done = {**PUSH, "remote": "origin", "context": {"why": context}}
    assert bob.sent(1, done).allowed
    others: list[dict[str, Any]] = [
        PUSH,
        {**PUSH, "remote": "origin"},
        {**done, "remote": "elsewhere"},
        {**done, "text": "git push --force"},
        {**done, "context": {"why": context, "another": 1}},
        {**done, "cost_usd": 1.0},
        {**done, "type": "merge"},
        {**done, "project": "web"},
    ]
    assert not any(bob.sent(3 + n, other).allowed for n, other in enumerate(others))


def test_a_command_that_was_asked_beforehand_is_granted_by_its_shape_in_the_project_it_named() -> (
    None
):
    bob = Bob(Policy(profile="coding"))

    words = bob.asked("run_shell", {"text": LINT["text"], "project": "web"})

    assert words == "acmectl lint <a path in the project>"
    other = {**LINT, "text": "acmectl lint src/b.py"}
    assert bob.sent(1, {**other, "project": "web"}).allowed
    assert bob.sent(2, other).status == "pending", "no project"
    assert (
        bob.sent(3, {**other, "text": "acmectl rm src/b.py", "project": "web"}).status == "pending"
    )


@pytest.mark.parametrize("leads_to", ["/home/a/.env", "/home/b/.env"])
def test_a_path_that_was_asked_for_beforehand_is_granted_where_it_led(leads_to: str) -> None:
    bob = Bob()
    bob.asked("read_file", {"paths": [".env"], "cwd": "/home/c"}, resolved=("/home/a/.env",))

    wanted = b'{"type": "read_file", "paths": [".env"], "cwd": "/home/c"}'
    proposal, digest = read_proposal("code", wanted, "p1")
    decided = bob.proposes(_proposed(1, proposal, digest, (leads_to,)))

    assert decided.allowed is (leads_to == "/home/a/.env")
