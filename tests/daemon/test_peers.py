"""What a daemon knows of the others on the bus, and when it says that one is gone."""

from typing import Any

from safetyd.daemon.peers import FORGET_S, GONE_S, Hello, PeerTable


class Table(PeerTable):
    """The table of daemon `a` with a clock that a test moves."""

    def __init__(self) -> None:
        self.t = 100.0
        super().__init__("a", "boot-a", lambda: self.t)

    def hears(self, name: str, **fields: Any) -> bool:
        said = {
            "role": "standby",
            "version": "1",
            "machine": "m",
            "web": "",
            "term": 1,
            "seq": 1,
            "stream_seq": 1,
            "boot": f"boot-{name}",
        }
        return self.put(Hello(**{**said, **fields}, name=name))

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.all]


def test_a_silent_daemon_is_forgotten_and_is_new_when_it_is_back() -> None:
    table = Table()

    first, again = table.hears("b"), table.hears("b")
    table.t += FORGET_S / 2
    known, heard_s = table.names, table.all[0].heard_s
    table.t += FORGET_S / 2
    silent = table.names

    assert (first, again, table.hears("b")) == (True, False, True)
    assert (known, heard_s, silent) == (["b"], FORGET_S / 2, [])


def test_a_restart_or_another_role_is_new_to_the_others() -> None:
    table = Table()
    table.hears("b")

    assert table.hears("b", boot="later")
    assert table.hears("b", boot="later", role="writer")
    assert not table.hears("b", boot="later", role="writer")


def test_own_messages_are_ignored_and_a_daemon_of_the_same_name_is_noticed() -> None:
    table = Table()

    table.hears("a")
    alone = table.twin
    table.hears("a", boot="another")

    assert (alone, table.twin, table.names) == (False, True, [])
    table.t += FORGET_S
    assert not table.twin


def test_a_daemon_is_absent_only_after_it_had_time_to_be_heard() -> None:
    table = Table()
    table.hears("b")

    early = table.is_absent("c")
    table.t += FORGET_S
    table.hears("b")

    assert not early
    assert [name for name in ("a", "b", "c") if table.is_absent(name)] == ["c"]


def test_a_new_standby_is_recorded_at_once_and_one_that_cannot_take_over_is_not() -> None:
    table = Table()
    table.hears("c", problem="an unknown event")

    nobody = table.change(())
    table.hears("b")

    assert nobody is None
    assert table.change(()) == (("b",), ())
    assert table.change(("b",)) is None


def test_a_standby_that_restarts_is_not_gone_and_one_that_stays_away_is() -> None:
    table = Table()
    table.hears("b")
    table.hears("c")

    table.t += GONE_S - 1
    table.hears("c")
    restarting = table.change(("b", "c"))
    table.t += 1

    assert restarting is None
    assert table.change(("b", "c")) == (("c",), ("b",))


def test_after_a_takeover_the_standbys_of_the_last_term_have_time_to_be_heard() -> None:
    table = Table()

    begun = [table.change(recorded) for recorded in (("a",), ("b",), ("a", "b"))]
    table.t += GONE_S

    assert begun == [None, None, None]
    assert table.change(("a",)) == ((), ())
    assert table.change(("a", "b")) == ((), ("b",))


def test_the_writer_before_joins_as_a_standby_without_an_alarm() -> None:
    table = Table()
    table.hears("b")

    assert table.change(("a",)) == (("b",), ())
