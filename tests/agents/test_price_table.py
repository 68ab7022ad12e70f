import logging
import socket

import pytest
from genai_prices import Usage
from genai_prices.data import providers
from hypothesis import given
from hypothesis import strategies as st

from safetyd.agents.price_table import PriceTable
from safetyd.agents.pricing import PriceConfig, PricesConfig, price_list
from safetyd.core.messages.money import MAX_NANO, NANO, usd
from safetyd.core.messages.proposal import Proposal, Tokens
from tests.story import NOON

MILLION = Tokens(input=1_000_000, output=1_000_000)
TABLE = [(provider, model) for provider in providers for model in provider.models]


def price(model: str, provider: str | None = None, tokens: Tokens = MILLION) -> int | None:
    return PriceTable().price(model, provider, tokens, NOON)


@pytest.mark.req("S1.18")
@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("claude-opus-4-5", None),
        ("claude-opus-4-5", "anthropic"),
        ("Claude-Opus-4-5", "Anthropic"),
        ("anthropic/claude-opus-4-5", None),
        ("claude-opus-4-5", "a provider that nobody knows"),
        ("claude-opus-4-5", "openai"),
    ],
)
def test_model_is_found_however_it_is_named(model, provider) -> None:
    assert price(model, provider) == 30 * NANO


@pytest.mark.parametrize("model", ["", "nobody-knows", "\x7f\u202e", "x" * 128])
def test_model_that_is_in_no_table_has_no_price(model) -> None:
    assert price(model) is None
    assert price(model, "openai") is None


def test_model_that_is_not_paid_by_the_token_has_no_price() -> None:
    assert price("whisper-large-v3", "groq") is None


def test_long_input_has_the_price_of_long_input() -> None:
    short = price("gemini-2.5-pro", "google", Tokens(input=200_000))
    long = price("gemini-2.5-pro", "google", Tokens(input=200_001))

    assert short is not None
    assert long is not None
    assert long > 1.9 * short


def test_cached_input_has_its_own_price_if_there_is_one() -> None:
    """A million tokens of input cost 1.25 dollars, or 0.125 dollars if they are cached."""
    assert price("gpt-5", tokens=Tokens(input=1_000_000)) == 1.25 * NANO
    assert price("gpt-5", tokens=Tokens(input=1_000_000, cached=1_000_000)) == 0.125 * NANO
    assert price("gpt-5", tokens=Tokens(input=1_000_000, cached=2_000_000)) == 0.125 * NANO
    (plain,) = {
        model.id
        for provider, model in TABLE
        if provider.id == "openai" and model.id == "gpt-4"
        if vars(model.get_prices(NOON)).get("cache_read_mtok") is None
    }
    whole = price(plain, tokens=Tokens(input=1_000_000))
    assert price(plain, tokens=Tokens(input=1_000_000, cached=1_000_000)) == whole


def test_absurd_counts_of_tokens_stay_within_bounds() -> None:
    assert price("claude-opus-4-5", None, Tokens(input=2**53, output=2**53)) == MAX_NANO


@given(st.sampled_from(TABLE), st.integers(0, 10**7), st.integers(0, 10**7))
def test_price_is_the_packages_own_rounded_up(entry, read, written) -> None:
    provider, model = entry
    table = PriceTable()
    table._find = lambda *_: model  # type: ignore[assignment]
    theirs = model.calc_price(
        Usage(input_tokens=read, output_tokens=written), provider, genai_request_timestamp=NOON
    )

    ours = table.price("", None, Tokens(input=read, output=written), NOON)

    assert ours is None or 0 <= ours - theirs.total_price * NANO < 1


def test_no_price_is_fetched(monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a price was looked for on the network")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)

    assert price("gpt-5.2") is not None
    assert price("nobody-knows") is None


def test_names_of_models_are_not_collected() -> None:
    table = PriceTable()
    for number in range(5000):
        table.price(f"gpt-5.2-{number}", None, MILLION, NOON)

    assert table._find.cache_info().currsize <= 4096


@pytest.mark.req("S1.18")
def test_price_list_asks_the_operator_then_the_table_then_guesses() -> None:
    config = PricesConfig(models={"llama*": PriceConfig(input=0, output=0)})
    prices = price_list(config)

    def cost(model: str) -> float:
        proposal = Proposal(type="model_call", model=model, tokens=MILLION)
        return usd(prices.of_proposal(proposal, NOON) or 0)

    assert [cost("llama3"), cost("claude-opus-4-5"), cost("mine")] == [0, 30, 90]


def test_model_without_a_price_is_logged_once_with_the_line_to_add(caplog, monkeypatch) -> None:
    monkeypatch.setattr(logging.getLogger("safetyd"), "propagate", True)
    prices = price_list(PricesConfig())
    proposal = Proposal(type="model_call", model="mine", tokens=MILLION)

    prices.of_proposal(proposal, NOON)
    prices.of_proposal(proposal, NOON)

    [record] = caplog.records
    assert '[prices.models]: "mine" = { input = 15, output = 75 }' in record.getMessage()
