"""The ready configurations: each is right, and the modes differ where they say so."""

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Severity
from safetyd.daemon.config import load
from tests.checkout import ROOT
from tests.conftest import safetyd
from tests.story import ask, propose

CONFIG_DIR = ROOT / "config"
MODES = ("development", "production", "hybrid")


def engine(mode: str) -> Engine:
    return Engine(load(CONFIG_DIR / f"{mode}.toml").policy())


def call_cloud(mode: str, **fields: object) -> Decision:
    call = propose(0, type="model_call", provider="openai", model="gpt-5.2", **fields)  # type: ignore[arg-type]
    return ask(engine(mode), call)


def at_once(mode: str) -> int:
    """Return how many proposals of one agent are allowed at the same time."""
    asked = engine(mode)
    reads = (propose(0, id=f"p{n}", digest=f"sha256:{n}") for n in range(200))
    return sum(ask(asked, read).decision is Severity.ALLOW for read in reads)


@pytest.mark.req("S1.3")
@pytest.mark.parametrize("name", ["safetyd", "container", *MODES])
def test_a_shipped_configuration_is_valid(name: str):
    said = safetyd("config", "check", str(CONFIG_DIR / f"{name}.toml"))

    assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.parametrize("mode", MODES)
def test_a_shipped_configuration_has_the_mode_of_its_name(mode: str):
    assert load(CONFIG_DIR / f"{mode}.toml").mode == mode


@pytest.mark.req("S1.3")
def test_development_blocks_cloud_models():
    answer = call_cloud("development")

    assert (answer.decision, answer.cause) == (Severity.BLOCK, "mode_violation")
    assert answer.triggered_rules == ("mode.cloud",)


@pytest.mark.req("S1.3")
@pytest.mark.parametrize("mode", ["production", "hybrid"])
def test_production_and_hybrid_allow_cloud_models(mode: str):
    assert call_cloud(mode).decision is Severity.ALLOW


@pytest.mark.req("S1.14")
def test_development_has_smaller_bursts():
    assert (at_once("development"), at_once("production"), at_once("hybrid")) == (60, 120, 120)


def test_development_allows_tests_and_needs_approval_for_a_push():
    development = engine("development")
    build = propose(0, type="run_shell", text="make test")
    push = propose(1, id="p2", type="run_shell", text="git push", digest="sha256:d2")

    assert ask(development, build).decision is Severity.ALLOW
    assert ask(development, push).decision is Severity.ASK


def test_development_has_the_coding_profile_and_the_others_are_strict():
    profiles = {mode: load(CONFIG_DIR / f"{mode}.toml").profile for mode in MODES}

    assert profiles == {"development": "coding", "production": "strict", "hybrid": "strict"}


def test_in_hybrid_an_expensive_call_needs_approval_and_local_models_are_free():
    prices = load(CONFIG_DIR / "hybrid.toml").prices

    assert call_cloud("hybrid", cost_usd=2.0).decision is Severity.ASK
    assert prices.models["llama*"].input == 0
