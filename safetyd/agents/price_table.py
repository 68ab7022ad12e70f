"""Prices from the package `genai-prices`, as installed: safetyd never fetches newer ones."""

import functools
import math
from datetime import datetime
from typing import Final

from genai_prices.data import providers
from genai_prices.data_snapshot import DataSnapshot
from genai_prices.types import ModelInfo, calc_unit_price

from safetyd.core.messages.money import MAX_NANO, NANO
from safetyd.core.messages.proposal import Tokens

MAX_REMEMBERED: Final = 4096  # a limit, because agents choose the names of models
_MILLION: Final = 1_000_000
_THOUSAND: Final = 1_000

# With this provider name, the package splits names such as "openai/gpt-5" into provider and model.
# Other names are looked up as a model alone.
_ANY_PROVIDER: Final = "litellm"


class PriceTable:
    """The prices of the package. If the provider is unknown, only the model is used."""

    def __init__(self) -> None:
        self._find = functools.lru_cache(MAX_REMEMBERED)(_find)

    def price(self, model: str, provider: str | None, tokens: Tokens, at: datetime) -> int | None:
        info = self._find(model, provider)
        if info is None:
            return None
        # `calc_price` of the package supports more units, but takes 100 microseconds.
        rates = vars(info.get_prices(at))
        read, written = rates.get("input_mtok"), rates.get("output_mtok")
        if read is None and written is None:
            return None  # the model has no price per token, but per second or per image
        # A model without a price for cached tokens charges them like others.
        cached = min(tokens.cached, tokens.input) if rates.get("cache_read_mtok") else 0
        usd = (
            calc_unit_price(read, tokens.input - cached, tokens.input, _MILLION)
            + calc_unit_price(rates.get("cache_read_mtok"), cached, tokens.input, _MILLION)
            + calc_unit_price(written, tokens.output, tokens.input, _MILLION)
            + calc_unit_price(rates.get("requests_kcount"), 1, tokens.input, _THOUSAND)
        )
        return min(math.ceil(usd * NANO), MAX_NANO)


def _find(model: str, provider: str | None) -> ModelInfo | None:
    if provider is not None and (info := _look_up(model, provider)) is not None:
        return info
    return _look_up(model, _ANY_PROVIDER)


def _look_up(model: str, provider: str) -> ModelInfo | None:
    # A new snapshot each time, because a snapshot stores every name it looks up.
    snapshot = DataSnapshot(providers=providers, from_auto_update=False)
    try:
        return snapshot.find_provider_model(model, None, provider, None)[1]
    except LookupError:
        return None
