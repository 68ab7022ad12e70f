"""Run the suite: most tests side by side, some alone, and what failed once more.

A test that fails beside others and passes alone is FLAKY. Up to three of them are named at the end
of a green run; they are work to be done. Anything else that fails makes the run fail.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.run_record import RECORD, failures, longest

MOST_FLAKY: Final = 3
LONGEST: Final = 10
WORKERS: Final = os.environ.get("WORKERS", "4")
PYTEST: Final = (
    *(sys.executable, "-m", "pytest", "-p", "tests.run_record"),
    *("--cov", "--cov-append", "--cov-report=", "--cov-fail-under=0"),
)
SIDE_BY_SIDE: Final = ("-m", "not alone", "-n", WORKERS, "--dist", "loadfile")
IN_ORDER: Final = "--no-loadscope-reorder"
COVERAGE: Final = (sys.executable, "-m", "coverage")
CORE: Final = ("--include=safetyd/core/*", "--fail-under=100")

PASSED, SOME_FAILED, NOTHING_CHOSEN = 0, 1, 5  # exit codes of pytest


class WholeRun:
    """`record` is where pytest writes down what failed; `problems` is why the run is not green."""

    def __init__(self, record: Path) -> None:
        self.problems: list[str] = []
        self._record = record
        self._flaky: list[str] = []
        self._some_failed = False

    def half(self, name: str, *arguments: str) -> None:
        code = self._pytest(*arguments)
        self._some_failed |= code == SOME_FAILED
        if code not in {PASSED, SOME_FAILED, NOTHING_CHOSEN}:
            self.problems.append(f"{name}: pytest ended with {code}")

    def repeat(self) -> None:
        """Run what failed once more, alone."""
        if not self._some_failed:
            return
        failed = failures(self._record)
        tests = [failure.test for failure in failed]
        if not 1 <= len(tests) <= MOST_FLAKY:
            self.problems += tests or ["tests failed, and none was recorded"]
            return
        print(f"\nOnce more, alone: {', '.join(tests)}", flush=True)
        if self._pytest(*tests) == PASSED:
            self._flaky = [f"{failure.test}\n    {failure.error}" for failure in failed]
        else:
            self.problems += tests

    def judge_coverage(self) -> None:
        if _run(*COVERAGE, "report"):
            self.problems.append("coverage")
        if _run(*COVERAGE, "report", *CORE):
            self.problems.append("coverage of the core")

    def report(self) -> int:
        """Print what people should know; return the exit code."""
        print("\nLongest files, in seconds:")
        for seconds, file in longest(self._record, LONGEST):
            print(f"{seconds:7.1f}  {file}")
        if self.problems:
            print("\nfailed:", *self.problems, sep="\n  ", file=sys.stderr)
            return 1
        if self._flaky:
            print("\nFLAKY (failed beside others, passed alone):", *self._flaky, sep="\n  ")
        return 0

    def _pytest(self, *arguments: str) -> int:
        return _run(*PYTEST, *arguments, **{RECORD: str(self._record)})


def _run(*command: str, **variables: str) -> int:
    sys.stdout.flush()
    return subprocess.run(command, env=os.environ | variables, check=False).returncode


def _alone() -> list[str]:
    """Return the files with tests that run alone; collecting all others would take longer."""
    files = Path("tests").rglob("test_*.py")
    return [str(path) for path in files if "mark.alone" in path.read_text()]


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as place:
        run = WholeRun(Path(place) / "record")
        _run(*COVERAGE, "erase")
        run.half("side by side", *SIDE_BY_SIDE, IN_ORDER, *arguments)
        run.half("alone", "-m", "alone", *(arguments or _alone()))
        run.repeat()
        if not arguments:
            run.judge_coverage()
        return run.report()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
