from safetyd.daemon.health import Health


def health(*, stalled: str = "", disk: str = "", lost: str = "") -> Health:
    made = Health(
        bus=str,
        journal=str,
        lost=lambda: lost,
        stalled=lambda: stalled,
        lag_s=float,
        unwritten_stops=int,
        disk=lambda: disk,
    )
    made.begin()
    return made


def test_people_are_told_that_it_is_for_want_of_room_and_agents_are_not() -> None:
    stuck = health(stalled="the journal has not answered", disk="the disk at / is 100 % full")

    assert stuck.not_ready() == "the journal has not answered"
    assert stuck.explained() == stuck.trouble()
    assert stuck.explained() == "the journal has not answered: the disk at / is 100 % full"


def test_a_lost_journal_is_the_cause_of_everything_and_no_reason_for_a_restart() -> None:
    lost = health(stalled="the journal has not answered", lost="the journal was lost")

    assert lost.problem() == lost.not_ready() == lost.explained() == "the journal was lost"
    assert lost.better_restarted() == ""


def test_a_full_disk_is_no_trouble_while_proposals_are_answered() -> None:
    assert health(disk="the disk at / is 100 % full").explained() == ""
    assert health(stalled="the journal has not answered").explained() == (
        "the journal has not answered"
    )


def test_a_start_and_an_end_are_not_blamed_on_the_disk() -> None:
    ending = health(disk="the disk at / is 100 % full")
    ending.end()

    assert ending.explained() == "safetyd is starting or stopping"
    assert ending.trouble() == ""
