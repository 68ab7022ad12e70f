"""What work costs beside other work of the same run.

Time on a processor is counted, not time on the clock: a busy machine takes none of it away. What
remains of the machine cancels out in the ratio.
"""

import time
from collections.abc import Callable

from safetyd.bus.codec import read_proposal
from tests.tracing import untraced

ROUNDS = 9

Work = Callable[[], object]


def seconds(work: Work, times: int = 1, rounds: int = ROUNDS) -> float:
    """Return what one call takes of this thread's processor, in the best of some rounds."""
    with untraced():
        return min(_round(work, times) for _ in range(rounds))


def ratio(work: Work, other: Work, times: int = 1, rounds: int = ROUNDS) -> float:
    """Return how often the other could be done for what one takes, both measured in turns."""
    pairs = [
        (seconds(work, times, rounds=1), seconds(other, times, rounds=1)) for _ in range(rounds)
    ]
    return min(taken for taken, _ in pairs) / min(taken for _, taken in pairs)


def reading() -> object:
    """Read a proposal: what every decision begins with, so that others are compared with it."""
    return read_proposal("code", b'{"type":"run_shell","text":"make test"}', "")


def _round(work: Work, times: int) -> float:
    begun = time.thread_time()
    for _ in range(times):
        work()
    return (time.thread_time() - begun) / times
