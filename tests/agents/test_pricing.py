from datetime import datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.agents.pricing import (
    MAX_SAID,
    PriceConfig,
    PriceList,
    PriceRate,
    PricesConfig,
    UnknownPriceConfig,
    line_to_add,
)
from safetyd.core.messages.money import MAX_NANO, NANO, nano, usd
from safetyd.core.messages.proposal import Proposal, Tokens
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.open_actions import Action
from tests.story import NOON

MILLION = Tokens(input=1_000_000)
BOTH = Tokens(input=1_000_000, output=1_000_000)


class OneModel:
    """A table with one model in it, dearer in the morning."""

    def price(self, model: str, provider: str | None, tokens: Tokens, at: datetime) -> int | None:
        if model != "gpt-5.2":
            return None
        return tokens.input * (2000 if at.hour < 12 else 1000) * (2 if provider == "azure" else 1)


class Listed:
    """A price list, and the models that it said are in no table."""

    def __init__(self, config: PricesConfig | None = None) -> None:
        self.unlisted: list[str] = []
        self._list = PriceList(config or PricesConfig(), OneModel(), self.unlisted.append)

    def price(self, model: str | None = None, tokens: Tokens | None = BOTH, **fields: object):
        proposal = Proposal(type="model_call", model=model, tokens=tokens, **fields)  # type: ignore[arg-type]
        return self._list.of_proposal(proposal, NOON)

    def outcome(self, begun: Action | None, **fields: object):
        return self._list.of_outcome(Outcome(ok=True, **fields), begun, NOON)  # type: ignore[arg-type]


def globs(rates: dict[str, tuple[float, float]]) -> PricesConfig:
    return PricesConfig(
        models={glob: PriceConfig(input=rate[0], output=rate[1]) for glob, rate in rates.items()}
    )


@pytest.mark.req("S1.18")
def test_operators_price_goes_before_the_table() -> None:
    listed = Listed(globs({"gpt-*": (3, 4)}))

    assert listed.price("gpt-5.2") == 7 * NANO


def test_first_glob_that_matches_gives_the_price_in_any_case() -> None:
    listed = Listed(globs({"llama3*": (0, 0), "LLAMA*": (1, 1)}))

    assert listed.price("Llama3:8b") == 0
    assert listed.price("llama2") == 2 * NANO


def test_cached_input_costs_what_the_operator_says_or_else_the_same_as_other_input() -> None:
    cached = Tokens(input=1000, cached=900)
    same, less = PriceConfig(input=10, output=0), PriceConfig(input=10, output=0, cached=1)

    assert PriceRate(same).price(cached) == PriceRate(same).price(Tokens(input=1000))
    assert PriceRate(less).price(cached) == PriceRate(same).price(Tokens(input=190))


def test_unknown_model_is_never_free() -> None:
    assert Listed().price("nobody/knows") == 90 * NANO


def test_tokens_without_a_model_cost_what_an_unknown_one_costs() -> None:
    listed = Listed()

    assert listed.price(None) == 90 * NANO
    assert listed.unlisted == []


def test_without_tokens_there_is_no_price() -> None:
    listed = Listed()

    assert listed.price("gpt-5.2", None) is None
    assert listed.outcome(None, model="gpt-5.2") is None


def test_unknown_model_is_told_of_once() -> None:
    listed = Listed()
    for model in ("new", "new", "newer", "gpt-5.2"):
        listed.price(model)

    assert listed.unlisted == ["new", "newer"]


def test_only_so_many_unknown_models_are_told_of() -> None:
    listed = Listed()
    for number in range(MAX_SAID + 1):
        listed.price(f"m{number}")

    assert len(listed.unlisted) == MAX_SAID


def test_provider_and_time_reach_the_table() -> None:
    listed = PriceList(PricesConfig(), OneModel(), print)
    proposal = Proposal(type="model_call", model="gpt-5.2", provider="azure", tokens=MILLION)

    assert listed.of_proposal(proposal, NOON) == 2 * NANO
    assert listed.of_proposal(proposal, NOON.replace(hour=3)) == 4 * NANO


def test_outcome_has_the_price_of_its_proposals_model() -> None:
    begun = Action(0, "model_call", model="gpt-5.2", provider="azure")

    assert Listed().outcome(begun, tokens=MILLION) == 2 * NANO


def test_outcome_that_names_another_model_has_the_dearer_price() -> None:
    listed = Listed(globs({"cheap": (0.5, 0), "dear": (9, 0)}))
    begun = Action(0, "model_call", model="gpt-5.2")

    assert listed.outcome(begun, model="cheap", tokens=MILLION) == NANO
    assert listed.outcome(begun, model="dear", tokens=MILLION) == 9 * NANO


def test_outcome_of_no_proposal_has_the_price_of_its_own_model() -> None:
    assert Listed().outcome(None, model="gpt-5.2", tokens=MILLION) == NANO
    assert Listed().outcome(None, tokens=MILLION) == 15 * NANO


def test_part_of_a_nano_dollar_is_a_whole_one() -> None:
    assert Listed(globs({"tiny": (0.0001, 0)})).price("tiny", Tokens(input=1)) == 1


def test_absurd_counts_of_tokens_stay_within_bounds() -> None:
    absurd = Tokens(input=2**53, output=2**53)

    assert Listed().price("new", absurd) == MAX_NANO


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_more_tokens_never_cost_less(few, more) -> None:
    listed = Listed()

    less = listed.price("new", Tokens(input=few))
    assert listed.price("new", Tokens(input=few, output=more)) >= less


@pytest.mark.parametrize(
    "wrong",
    [
        {"unknown": {"input": 0}},
        {"models": {"llama*": {"input": 1}}},
        {"models": {"llama*": {"input": -1, "output": 0}}},
        {"model": {}},
    ],
    ids=["free unknown", "half a price", "negative", "misspelt"],
)
def test_prices_that_make_no_sense_are_refused(wrong) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, PricesConfig)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=128))
def test_line_to_add_can_be_pasted_and_prices_that_model(model) -> None:
    line = line_to_add(model, UnknownPriceConfig(input=1, output=1))
    models = msgspec.toml.decode(f"[models]\n{line}\n", type=PricesConfig)

    assert Listed(models).price(model) == 2 * NANO


@given(st.integers(0, 10**15))
def test_dollars_and_back_is_the_same_amount(amount) -> None:
    assert nano(usd(amount)) == amount
