import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.guards.kernel import Kernel, KernelStep, State, shown

READY, PLANNING, EXECUTING, EVALUATING, SAFE_MODE = State


@pytest.mark.req("S0.2")
def test_there_are_five_states_named_in_lower_case() -> None:
    assert [*State] == ["ready", "planning", "executing", "evaluating", "safe_mode"]


@pytest.mark.req("S0.8")
def test_the_edges_are_those_of_the_seed_and_one_for_refusals() -> None:
    assert {step.value for step in KernelStep} == {
        (READY, PLANNING),
        (PLANNING, EXECUTING),
        (PLANNING, READY),
        (EXECUTING, EVALUATING),
        (EVALUATING, READY),
        (EXECUTING, SAFE_MODE),
        (SAFE_MODE, READY),
    }


def test_a_step_from_where_no_action_is_is_refused() -> None:
    with pytest.raises(ValueError, match="no action is executing, so none can be ended"):
        Kernel().move(KernelStep.ENDED)


def test_a_halt_keeps_the_actions_that_are_under_way() -> None:
    kernel = Kernel()
    kernel.move(KernelStep.PROPOSED, KernelStep.ALLOWED)

    kernel.halt()
    assert kernel.state is SAFE_MODE

    kernel.move(KernelStep.EXITED)
    assert kernel.state is EXECUTING


def test_what_is_done_at_once_is_as_if_step_by_step() -> None:
    at_once, stepwise = Kernel(), Kernel()

    for _ in range(3):
        at_once.begin()
        stepwise.move(KernelStep.PROPOSED, KernelStep.ALLOWED)
    assert at_once == stepwise

    at_once.give_up(2)
    stepwise.move(KernelStep.ENDED, KernelStep.EVALUATED, KernelStep.ENDED, KernelStep.EVALUATED)
    assert at_once == stepwise
    assert at_once.state is EXECUTING

    at_once.give_up(2)
    assert at_once.state is READY


def test_the_most_restricted_state_is_shown_for_many() -> None:
    assert shown([READY, EXECUTING, PLANNING]) is EXECUTING
    assert shown([PLANNING, SAFE_MODE]) is SAFE_MODE
    assert shown([]) is READY


steps = st.lists(st.sampled_from(KernelStep), max_size=40)


def took(kernel: Kernel, step: KernelStep) -> bool:
    before = msgspec.msgpack.encode(kernel)
    try:
        kernel.move(step)
    except ValueError:
        assert msgspec.msgpack.encode(kernel) == before
        return False
    return True


@pytest.mark.req("S0.2")
@pytest.mark.req("S0.8")
@given(steps)
def test_with_one_action_the_kernel_only_moves_along_the_diagram(story) -> None:
    kernel = Kernel()
    for step in story:
        state = kernel.state
        if step is KernelStep.PROPOSED and state is not READY:
            continue  # this would be a second action

        begin, end = step.value
        assert took(kernel, step) == (begin is state)
        assert kernel.state is (end if begin is state else state)


@given(steps)
def test_of_several_actions_the_most_restricted_state_is_shown(story) -> None:
    kernel = Kernel()
    actions: list[State] = []
    safe = False
    for step in story:
        begin, end = step.value
        if took(kernel, step):
            if begin in actions:
                actions.remove(begin)
            actions.append(end)
            safe = end is SAFE_MODE or (safe and begin is not SAFE_MODE)
        else:
            assert begin not in actions or begin is SAFE_MODE

        under_way = [state for state in actions if state is not SAFE_MODE]
        assert kernel.state is shown([*under_way, *([SAFE_MODE] if safe else [])])
        assert min(kernel.planning, kernel.executing, kernel.evaluating) >= 0
