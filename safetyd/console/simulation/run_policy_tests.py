"""`safetyd test`: run policy tests, for example in CI."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from safetyd.console.daemon_config import read_config
from safetyd.console.failure import BLOCKED
from safetyd.console.help_page import command
from safetyd.console.options import config_option, data_dir_option, json_option
from safetyd.console.simulation.policy_tests import PolicyTests, TrialResult, load_tests, run_tests
from safetyd.console.terminal_text import document, plain
from safetyd.core.messages.verdict import Severity
from safetyd.daemon.settings import policy_of

REASON_CHARS: Final = 2000


@command("test")
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    help="TOML files with tests.",
)
@config_option
@data_dir_option
@json_option
def test_(
    files: tuple[Path, ...], config_path: Path | None, directory: Path, *, as_json: bool
) -> int:
    """Run policy tests. The exit code is 1 if one fails.

    The rules come from --config, else from the file that the tests name in `config`, else from the
    defaults. No daemon is needed, and nothing is changed. For example tests, see
    `safetyd docs config/policy_tests`.

    For example:
      safetyd test rules/*.toml --config safetyd.toml
    """
    results: list[TrialResult] = []
    for path in files:
        tests = load_tests(path)
        for result in _run(path, tests, config_path, directory):
            results.append(result)
            if not as_json:
                click.echo("\n".join(_lines(result)))
    failed = sum(not result.ok for result in results)
    counts = {"passed": len(results) - failed, "failed": failed}
    if as_json:
        told = {"ok": not failed, **counts, "tests": msgspec.to_builtins(results)}
        click.echo(document(told))
    else:
        click.echo(f"{counts['passed']} passed, {failed} failed.")
    return BLOCKED if failed else 0


def _run(
    path: Path, tests: PolicyTests, config_path: Path | None, place: Path
) -> Iterator[TrialResult]:
    named = path.parent / tests.config if tests.config else None
    config = config_path or named
    policy = policy_of(read_config(config), place, config)
    return run_tests(tests.test, policy)


def _lines(result: TrialResult) -> Iterator[str]:
    if result.ok:
        yield f"ok    {plain(result.name)}"
        return
    yield f"FAIL  {plain(result.name)}"
    yield f"      expected  {_said(result.expected, (result.expected_rule,))}"
    yield f"      found     {_said(result.found, result.rules)}"
    yield f"      reason    {plain(result.reason, REASON_CHARS)}"


def _said(decision: Severity, rules: Sequence[str]) -> str:
    by = ", ".join(map(plain, filter(None, rules)))
    return f"{decision.value} by {by}" if by else decision.value
