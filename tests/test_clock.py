from datetime import UTC

from safetyd.clock import Clock, uptime


def test_a_new_clock_begins_at_second_zero() -> None:
    assert 0.0 <= Clock().now().t < 1.0


def test_moments_carry_utc() -> None:
    assert Clock().now().at.tzinfo is UTC


def test_steady_seconds_go_on_from_the_last_journalled_one() -> None:
    clock = Clock()

    clock.resume_after(5000.0)

    assert 5000.0 <= clock.now().t < 5001.0


def test_steady_seconds_never_run_backwards() -> None:
    clock = Clock()

    moments = [clock.now().t for _ in range(1000)]

    assert moments == sorted(moments)


def test_quiet_wall_clock_has_not_stepped() -> None:
    assert Clock().read().stepped_s == 0.0


def test_step_is_told_once_with_its_size_and_direction() -> None:
    clock = Clock()
    clock._wall_minus_steady += 3600.0  # as if the wall clock had been set back by an hour

    stepped, again = clock.read().stepped_s, clock.read().stepped_s

    assert -3601.0 < stepped < -3599.0
    assert again == 0.0


def test_step_does_not_move_steady_seconds() -> None:
    clock = Clock()
    clock._wall_minus_steady += 3600.0

    assert 0.0 <= clock.read().moment.t < 1.0


def test_slow_drift_is_not_a_step() -> None:
    clock = Clock()
    clock._wall_minus_steady += 4.0

    assert clock.read().stepped_s == 0.0


def test_small_steps_add_up_to_one() -> None:
    clock = Clock()
    clock._wall_minus_steady += 4.0
    clock.read()
    clock._wall_minus_steady += 4.0

    assert -8.5 < clock.read().stepped_s < -7.5


def test_uptime_grows() -> None:
    before = uptime()

    assert uptime() >= before
