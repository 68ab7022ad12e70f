"""No command can end the process that parses it."""

import gc
import subprocess
import sys

from safetyd.core.shell.judge import read
from safetyd.core.shell.programs import shipped
from tests.core.shell import parser_fuzzing

# Switch threads so often that they interrupt each other while parsing.
TWO_THREADS = """
import sys, threading
from safetyd.core.shell.judge import read
from safetyd.core.shell.programs import shipped

sys.setswitchinterval(1e-6)
text = "echo 'abc' | cat; " * 40
def reads():
    for _ in range(40):
        assert read(text, shipped()) == expected
expected = read(text, shipped())
threads = [threading.Thread(target=reads) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_no_text_ends_the_process_that_parses_it() -> None:
    assert list(parser_fuzzing.found(seed=1, first=0, last=len(parser_fuzzing.HARD) + 200)) == []


def test_two_threads_can_parse_at_the_same_time() -> None:
    run = subprocess.run((sys.executable, "-c", TWO_THREADS), cwd=parser_fuzzing.ROOT, check=False)
    assert run.returncode == 0


def test_parsing_a_long_text_leaks_no_memory() -> None:
    text = "echo 'abc' | cat; " * 100
    before = [_blocks_after_reading(text) for _ in range(2)][-1]
    assert _blocks_after_reading(text) - before < 300  # each text has 29 chunks


def _blocks_after_reading(text: str) -> int:
    for _ in range(20):
        read(text, shipped())
    gc.collect()
    return sys.getallocatedblocks()
