"""Answers questions between batches, with pauses that leave most of the time to agents."""

from collections.abc import Callable
from typing import Final

import anyio

from safetyd.clock import Clock, uptime
from safetyd.core.engine.engine_state import EngineState
from safetyd.journal.mailbox import Mailbox, Question

RESTS: Final = 3.0  # a pause lasts this many times as long as the slice before it


async def answer_questions(
    mailbox: Mailbox, state: EngineState, clock: Clock, answered: Callable[[Question], None]
) -> None:
    """Compute questions slice by slice, forever, so that a batch waits for at most one slice."""
    while True:
        await mailbox.wait_for_question()
        begun = uptime()
        question = mailbox.take_question()
        if question is not None:
            question.open(state, clock.now())
            if question.done:
                answered(question)
            else:
                mailbox.put_back(question)
        await anyio.sleep(RESTS * (uptime() - begun))
