"""How long a tool call waits for an operator."""

import pytest

from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import ASK
from safetyd.core.recipients import ChannelKind, QuietHours, Recipient, TellingConfig
from safetyd.hosts.hosts_config import HostsConfig
from safetyd.hosts.wait_times import BRIEF_S, LONG_S, MAX_SESSIONS, WaitTimes
from tests.story import at

AWAKE = QuietHours(start="00:00", end="00:00")
ASLEEP = QuietHours(start="11:00", end="13:00")  # stories begin at noon


class Waits:
    """Wait times with these channels for one recipient. `answers` counts answers of operators."""

    def __init__(self, *kinds: ChannelKind, quiet: QuietHours = AWAKE, **settings: object) -> None:
        channels: dict[str, ChannelKind] = {kind: kind for kind in kinds}
        who = Recipient(name="ada", channels=kinds, quiet=quiet, agents=("code",))
        telling = TellingConfig(recipients=(who,) if kinds else (), channels=channels)
        config = HostsConfig(**settings)  # type: ignore[arg-type]
        self.answers = 0
        self.times = WaitTimes(lambda: config, lambda: telling, lambda: self.answers)

    def of(self, session: str = "s1", agent: str = "code") -> float:
        return self.times.wait_s(session, pending(agent))


def pending(agent: str = "code", **fields: object) -> Decision:
    given = {"id": "p", "agent": agent, "decision": ASK, "status": "pending", "at": at(0), **fields}
    return Decision(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        (Waits(), BRIEF_S),
        (Waits("webhook"), BRIEF_S),
        (Waits("email", quiet=ASLEEP), BRIEF_S),
        (Waits("email"), LONG_S),
        (Waits("webhook", "chat"), LONG_S),
        (Waits(wait_s=7), 7),
        (Waits("email", wait_s=0), 0),
    ],
    ids=["nobody", "cannot answer", "asleep", "mail", "chat", "set", "never"],
)
def test_a_call_waits_long_only_for_somebody_who_is_awake_and_can_answer(
    waits: Waits, expected: float
) -> None:
    assert waits.of() == expected


def test_recipients_of_other_agents_do_not_count() -> None:
    assert Waits("email").of(agent="web") == BRIEF_S


def test_after_a_wait_in_vain_a_session_waits_briefly_until_an_operator_answers() -> None:
    waits = Waits("email")
    waits.times.unanswered("s1", "code")
    assert [waits.of("s1"), waits.of("s2")] == [BRIEF_S, LONG_S]

    waits.answers += 1

    assert waits.of("s1") == LONG_S


def test_a_limited_number_of_sessions_is_remembered() -> None:
    waits = Waits("email")
    for number in range(MAX_SESSIONS + 1):
        waits.times.unanswered(f"s{number}", "code")

    assert [waits.of("s0"), waits.of("s1")] == [LONG_S, BRIEF_S]


def test_a_call_does_not_wait_if_nobody_is_notified_in_that_time() -> None:
    late = pending(reachable_from=at(LONG_S + 1))

    assert Waits("email").times.wait_s("s1", late) == 0.0
    assert Waits("email", wait_if_unreachable=True).times.wait_s("s1", late) == LONG_S
