"""Accounts of senders: who pays, who is refused, and what is reserved for whom."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from safetyd.agents.intake import Intake
from safetyd.agents.sender_accounts import (
    MAX_NAMED,
    RECENT_S,
    SESSION,
    Amount,
    OverLimit,
    RequestRoom,
    SenderAccounts,
    Taken,
    of_agent,
    of_user,
)
from safetyd.core.sender_limits import AGENT_LIMITS, BYTES_OF_ALL, MIB, USER_LIMITS

KNOWN = [f"known-{number}" for number in range(USER_LIMITS.known_agents)]
LARGEST = 8 * MIB


class Connection:
    def __init__(self) -> None:
        self.dropped = False

    def drop(self) -> None:
        self.dropped = True


class Time:
    def __init__(self) -> None:
        self.t = 1000.0

    def __call__(self) -> float:
        return self.t


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def accounts(time: Time) -> SenderAccounts:
    return SenderAccounts(now=time)


def refused(attempt: Callable[[], object]) -> str:
    with pytest.raises(OverLimit) as found:
        attempt()
    return str(found.value)


def begin_all(accounts: SenderAccounts, name: str = "new") -> list[RequestRoom]:
    """Begin as many requests of agents with new names as possible."""
    rooms = list[RequestRoom]()
    try:
        while True:
            rooms.append(accounts.begin(of_user(1000, f"{name}-{len(rooms)}")))
    except OverLimit:
        return rooms


def test_the_oldest_connection_without_a_request_gives_way(accounts: SenderAccounts) -> None:
    connections = [Connection() for _ in range(USER_LIMITS.connections + 2)]
    first = accounts.connect("uid:1000", connections[0])
    with accounts.protected(first, connections[0]):
        for connection in connections[1:]:
            accounts.connect("uid:1000", connection)

    assert [one.dropped for one in connections[:4]] == [False, True, True, False]
    assert [(one.sender, one.limit, one.count) for one in accounts.over()] == [
        ("uid:1000", "connections", 2)
    ]


def test_a_connection_is_refused_if_all_others_have_requests(time: Time) -> None:
    accounts = SenderAccounts(of_users=replace(USER_LIMITS, connections=1), now=time)
    connection = Connection()
    account = accounts.connect("uid:1000", connection)

    with accounts.protected(account, connection):
        text = refused(lambda: accounts.connect("uid:1000", Connection()))

    assert text == "uid:1000 is over the limit of 1 open connections"
    assert not connection.dropped


def test_if_all_senders_have_too_many_connections_the_largest_one_loses_one(time: Time) -> None:
    accounts = SenderAccounts(most_connections=3, now=time)
    large, small = [Connection(), Connection()], Connection()
    for connection in large:
        accounts.connect("uid:1000", connection)
    accounts.connect("uid:1001", small)

    accounts.connect("uid:1001", Connection())

    assert (large[0].dropped, large[1].dropped, small.dropped) == (True, False, False)


def test_a_connection_moves_to_the_account_of_its_token(accounts: SenderAccounts) -> None:
    connection = Connection()
    peer = accounts.connect("address:127.0.0.1", connection)
    agent = accounts.move(peer, connection, "agent:code")
    accounts.disconnect(agent, connection)

    assert (len(peer.open), len(agent.open), agent.name) == (0, 0, "agent:code")


def test_known_agents_begin_requests_while_new_names_use_up_the_rest(
    accounts: SenderAccounts,
) -> None:
    for agent in KNOWN:
        with accounts.begin(of_user(1000, agent)):
            pass

    rooms = begin_all(accounts)
    text = refused(lambda: accounts.begin(of_user(1000, "another")))

    assert 0 < len(rooms) < USER_LIMITS.requests
    assert text == "uid:1000 is over the limit of 64 requests under way"
    own = [accounts.begin(of_user(1000, agent)) for agent in KNOWN]
    accounts.begin(of_user(1001, "another"))
    accounts.begin(of_agent("code"))
    for room in (*rooms, *own):
        with room:
            pass
    assert len(begin_all(accounts, "later")) == len(rooms)


def test_bytes_are_reserved_before_a_body_is_read_and_given_back(
    accounts: SenderAccounts, time: Time
) -> None:
    with accounts.begin(of_agent("code")) as room:
        room.reserve(LARGEST)
        time.t += 3600
        room.reserve(LARGEST)
        time.t += 3600
        with accounts.begin(of_agent("code")) as other:
            text = refused(lambda: other.reserve(1))
    time.t += 3600
    with accounts.begin(of_agent("code")) as room:
        room.reserve(LARGEST)

    assert text == "agent:code is over the limit of 16,777,216 bytes in requests under way"


def test_bytes_per_second_are_limited_and_a_refusal_says_how_long_to_wait(
    accounts: SenderAccounts, time: Time
) -> None:
    for _ in range(AGENT_LIMITS.bytes_saved // LARGEST):
        with accounts.begin(of_agent("code")) as room:
            room.reserve(LARGEST)
    with accounts.begin(of_agent("code")) as room:
        with pytest.raises(OverLimit) as found:
            room.reserve(MIB)
        time.t += found.value.wait_s
        room.reserve(MIB)

    assert found.value.limit == "bytes_per_s"


def test_all_senders_together_have_a_limit_of_bytes_except_known_agents(
    accounts: SenderAccounts,
) -> None:
    known = accounts.begin(of_user(1000, KNOWN[0]))
    for number in range(BYTES_OF_ALL // LARGEST):
        accounts.begin(of_agent(f"a{number}")).reserve(LARGEST)

    text = refused(lambda: accounts.begin(of_agent("code")).reserve(LARGEST))
    known.reserve(MIB // 2)

    assert (
        text == "all senders together are over the limit of 16,777,216 bytes in requests under way"
    )


def test_a_sender_that_takes_long_to_read_pays_for_the_time(accounts: SenderAccounts) -> None:
    with accounts.begin(of_agent("code")) as room:
        room.reserve(1)
        room.charge(2.0)

        assert "bytes per second" in refused(lambda: room.reserve(1))


def test_waiting_calls_are_limited_and_do_not_count_as_under_way(accounts: SenderAccounts) -> None:
    waited = list[bool]()

    def wait(left: int) -> None:
        with accounts.begin(of_agent("code")) as room, room.waiting() as waits:
            waited.append(waits)
            if left:
                wait(left - 1)

    wait(AGENT_LIMITS.waiting)

    assert waited == [True] * AGENT_LIMITS.waiting + [False]
    assert accounts.account("agent:code").requests.used == 0


def test_requests_have_their_turns_one_after_the_other(
    accounts: SenderAccounts, time: Time
) -> None:
    saved, per_s = int(AGENT_LIMITS.requests_saved), AGENT_LIMITS.requests_per_s
    waits = [accounts.turn(of_agent("a")) for _ in range(saved + 2)]

    assert waits[:-2] == [0.0] * saved
    assert waits[-2:] == pytest.approx([1 / per_s, 2 / per_s])
    refused(lambda: [accounts.turn(of_agent("a")) for _ in range(1000)])
    assert accounts.turn(of_agent("b")) == 0.0
    time.t += 2.0
    assert accounts.turn(of_agent("a")) == 0.0


def test_known_agents_have_their_turns_although_new_names_take_all_others(
    accounts: SenderAccounts,
) -> None:
    for agent in KNOWN:
        accounts.turn(of_user(1000, agent))

    refused(lambda: [accounts.turn(of_user(1000, f"new-{number}")) for number in range(10_000)])

    assert [accounts.turn(of_user(1000, agent)) for agent in KNOWN] == [0.0] * len(KNOWN)


def test_a_sender_is_logged_once_a_minute_and_named_for_a_minute(
    accounts: SenderAccounts, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        accounts.report("uid:1000", "bytes")
    said = accounts.said()
    time.t += RECENT_S + 1

    assert said == ["uid:1000 was over the limit of bytes in requests under way"]
    assert accounts.over() == []
    assert len(caplog.messages) == 1
    accounts.report("uid:1000", "bytes")
    assert len(caplog.messages) == 2
    assert accounts.counts["bytes"] == 101


def test_secrets_are_never_named_and_many_senders_take_no_more_room(
    accounts: SenderAccounts,
) -> None:
    accounts.report(f"{SESSION}secret", "requests_per_s")
    for number in range(3 * MAX_NAMED):
        accounts.report(f"address:{number}", "bytes")

    assert "secret" not in str(accounts.said())
    assert len(accounts.over()) == MAX_NAMED


amounts = st.lists(st.tuples(st.sampled_from(("", "a", "b")), st.integers(1, 40), st.booleans()))


@given(amounts)
def test_an_amount_is_never_exceeded_and_known_agents_always_get_their_share(
    steps: list[tuple[str, int, bool]],
) -> None:
    amount, taken = Amount(100, 2), list[Taken]()
    for agent, size, gives_back in steps:
        if gives_back and taken:
            amount.give_back(taken.pop())
        elif found := amount.take(agent, size):
            taken.append(found)
        used = {name: sum(one.own for one in taken if one.agent == name) for name in ("a", "b")}
        assert amount.used == sum(one.own + one.shared for one in taken) <= 100
        for name, own in used.items():
            if own < 25:
                found = amount.take(name, 25 - own)
                assert found is not None
                amount.give_back(found)


def test_messages_of_new_names_of_a_user_leave_the_share_of_known_ones() -> None:
    reports = list[tuple[str, str]]()
    intake = Intake(50, lambda account, limit: reports.append((account, limit)))

    def admitted(agent: str, user: str = "uid:1000") -> bool:
        return not intake.admit(agent, 1000, 0.0, keyless=True, user=user)

    assert all(admitted(agent) for agent in KNOWN)
    flood = sum(admitted(f"new-{number}") for number in range(1000))

    assert 0 < flood < 1000
    assert set(reports) == {("uid:1000", "messages")}
    assert all(admitted(agent) for agent in KNOWN for _ in range(10))
    assert admitted("new", "uid:1001")
    assert not intake.admit("on-the-bus", 1000, 0.0, keyless=True)


def test_slow_proposals_of_one_known_agent_are_charged_to_its_own_share() -> None:
    intake = Intake(50)
    for agent in ("slow", "other"):
        intake.admit(agent, 0, 0.0, keyless=True, user="uid:1000")

    intake.charge("slow", 5.0, keyless=True, user="uid:1000")

    def overdrawn(agent: str) -> bool:
        return bool(intake.overdrawn_s(agent, 0.0, keyless=True, user="uid:1000"))

    assert [overdrawn(agent) for agent in ("slow", "other", "new")] == [True, False, False]
