"""Run the suite: most tests in parallel, some alone, and failed tests a second time.

A test that fails in parallel and passes alone is FLAKY. A green run names up to three of them; any
other failure makes the run fail. Tests of the core must cover every branch of the core. The others
run unmeasured, because measuring doubles their time (`make coverage` measures everything).
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
PYTEST: Final = (sys.executable, "-m", "pytest", "-p", "tests.run_record")
PARALLEL: Final = (
    *("-m", "not alone", "-n", WORKERS, "--dist", "loadfile"),
    "--no-loadscope-reorder",
)
# The tests that cover the core together: its own, and those of what reads its state.
CORE: Final = (
    *("tests/core", "tests/agents", "tests/cards", "tests/operators"),
    "tests/extras/reports",
)
MEASURED: Final = ("--cov=safetyd/core", "--cov-report=", "--cov-fail-under=0")
JUDGED: Final = (sys.executable, "-m", "coverage", "report", "--fail-under=100")

PASSED, SOME_FAILED, NOTHING_CHOSEN = 0, 1, 5  # exit codes of pytest


class WholeRun:
    """One run. pytest writes failures to `record`; `problems` says why the run is not green."""

    def __init__(self, record: Path) -> None:
        self.problems: list[str] = []
        self._record = record
        self._flaky: list[str] = []
        self._some_failed = False

    def part(self, name: str, *arguments: str) -> None:
        code = self._pytest(*arguments)
        self._some_failed |= code == SOME_FAILED
        if code not in {PASSED, SOME_FAILED, NOTHING_CHOSEN}:
            self.problems.append(f"{name}: pytest ended with {code}")

    def repeat(self) -> None:
        """Run failed tests once more, alone."""
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
        if _run(*JUDGED):
            self.problems.append("coverage of the core")

    def report(self) -> int:
        """Print the result; return the exit code."""
        print("\nLongest files, in seconds:")
        for seconds, file in longest(self._record, LONGEST):
            print(f"{seconds:7.1f}  {file}")
        print(
            "\nNot run: real coding agents (make hosts), frameworks (make adapters), installs with"
        )
        print("packages from the index (make packages), and the Debian package (make deb-test)")
        if self.problems:
            print("\nfailed:", *self.problems, sep="\n  ", file=sys.stderr)
            return 1
        if self._flaky:
            print("\nFLAKY (failed in parallel, passed alone):", *self._flaky, sep="\n  ")
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
        if arguments:
            run.part("parallel", *PARALLEL, *arguments)
        else:
            run.part("core", *PARALLEL, *MEASURED, *CORE)
            run.judge_coverage()
            run.part("parallel", *PARALLEL, *(f"--ignore={part}" for part in CORE), "tests")
        run.part("alone", "-m", "alone", *(arguments or _alone()))
        run.repeat()
        return run.report()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
