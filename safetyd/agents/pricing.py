"""What a model's tokens cost: the operator's prices, then a table of known ones, then a guess.

The table is the one inside the `genai-prices` package, read where it is installed; the package can
also fetch a newer one, and that is never asked for. The guess is `prices.unknown` and never 0: a
model that nobody has heard of is not free.
"""

import functools
import logging
import math
import re
from collections.abc import Callable
from datetime import datetime
from fnmatch import translate
from typing import Annotated, Final, Protocol

import msgspec
from genai_prices.data import providers
from genai_prices.data_snapshot import DataSnapshot
from genai_prices.types import ModelInfo, calc_unit_price
from msgspec import Meta

from safetyd.core.messages.money import MAX_NANO, NANO
from safetyd.core.messages.proposal import Proposal, Tokens
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.open_actions import Action

log = logging.getLogger("safetyd")

MAX_SAID: Final = 1000  # models, which are the agents' words
_PICO: Final = 10**6  # pico-dollars for one token, at a dollar per million tokens
_PICO_IN_NANO: Final = 1000
_SPECIAL: Final = re.compile(r"([*?[])")
UsdPerMillion = Annotated[float, Meta(ge=0, le=1e6)]
NotFree = Annotated[float, Meta(ge=0.01, le=1e6)]
MAX_REMEMBERED: Final = 4096  # models and providers are the agents' words
_MILLION: Final = 1_000_000
_THOUSAND: Final = 1_000

# Makes the package take "openai/gpt-5" apart, and otherwise go by the model alone.
_ANY_PROVIDER: Final = "litellm"


class PriceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens. Half a price is none, so both must be given."""

    input: UsdPerMillion
    output: UsdPerMillion


class UnknownPriceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    input: NotFree = 15.0
    output: NotFree = 75.0


class PricesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    unknown: UnknownPriceConfig = UnknownPriceConfig()
    models: dict[str, PriceConfig] = {}  # globs, in any case; the first that matches


class Prices(Protocol):
    """A table of prices."""

    def price(self, model: str, provider: str | None, tokens: Tokens, at: datetime) -> int | None:
        """Return nano-dollars; None if this model is not in the table."""
        ...


class ConfiguredPrices:
    """The operator's own table."""

    def __init__(self, config: PricesConfig) -> None:
        self._rates = tuple((_glob(glob), PriceRate(rate)) for glob, rate in config.models.items())

    def price(
        self,
        model: str,
        provider: str | None,  # noqa: ARG002 - a glob is for a model, whoever runs it
        tokens: Tokens,
        at: datetime,  # noqa: ARG002
    ) -> int | None:
        for matches, rate in self._rates:
            if matches(model):
                return rate.price(tokens)
        return None


class PriceList:
    """The price of whatever an agent names; `unlisted` is told once of each model in no table."""

    def __init__(
        self, config: PricesConfig, known: Prices, unlisted: Callable[[str], None]
    ) -> None:
        self._tables: tuple[Prices, ...] = (ConfiguredPrices(config), known)
        self._unknown = PriceRate(config.unknown)
        self._unlisted = unlisted
        self._said: set[str] = set()

    def of_proposal(self, proposal: Proposal, at: datetime) -> int | None:
        """Return what its tokens cost in nano-dollars; None if it names no tokens."""
        if proposal.tokens is None:
            return None
        return self._price(proposal.model, proposal.provider, proposal.tokens, at)

    def of_outcome(self, outcome: Outcome, begun: Action | None, at: datetime) -> int | None:
        """Return what its tokens cost, by its model or its proposal's, whichever is dearer."""
        tokens = outcome.tokens
        if tokens is None:
            return None
        if begun is None or begun.model is None:
            provider = begun.provider if begun else None
            return self._price(outcome.model, provider, tokens, at)
        models = {begun.model, outcome.model or begun.model}
        return max(self._price(model, begun.provider, tokens, at) for model in models)

    def _price(self, model: str | None, provider: str | None, tokens: Tokens, at: datetime) -> int:
        if model is None:
            return self._unknown.price(tokens)
        for table in self._tables:
            price = table.price(model, provider, tokens, at)
            if price is not None:
                return price
        self._say(model)
        return self._unknown.price(tokens)

    def _say(self, model: str) -> None:
        if model not in self._said and len(self._said) < MAX_SAID:
            self._said.add(model)
            self._unlisted(model)


class PriceRate:
    """A price per token, rounded up to a whole nano-dollar only when it is applied."""

    def __init__(self, config: PriceConfig | UnknownPriceConfig) -> None:
        self._input = round(config.input * _PICO)
        self._output = round(config.output * _PICO)

    def price(self, tokens: Tokens) -> int:
        pico = tokens.input * self._input + tokens.output * self._output
        return min(-(-pico // _PICO_IN_NANO), MAX_NANO)


def line_to_add(model: str, unknown: UnknownPriceConfig) -> str:
    """Return the line that gives a model its price, below `[prices.models]`."""
    glob = _SPECIAL.sub(r"[\1]", model)
    name = msgspec.json.encode(glob).decode().replace("\x7f", "\\u007f")
    return f"{name} = {{ input = {unknown.input:g}, output = {unknown.output:g} }}"


def _glob(glob: str) -> Callable[[str], object]:
    return re.compile(translate(glob), re.IGNORECASE).match


class ShippedPrices:
    """The package's table. A provider that it does not know is no provider."""

    def __init__(self) -> None:
        self._find = functools.lru_cache(MAX_REMEMBERED)(_find)

    def price(self, model: str, provider: str | None, tokens: Tokens, at: datetime) -> int | None:
        info = self._find(model, provider)
        if info is None:
            return None
        # `calc_price` of the package does the same for every unit there is, in 100 microseconds.
        rates = vars(info.get_prices(at))
        read, written = rates.get("input_mtok"), rates.get("output_mtok")
        if read is None and written is None:
            return None  # it is paid by the second or by the picture
        usd = (
            calc_unit_price(read, tokens.input, tokens.input, _MILLION)
            + calc_unit_price(written, tokens.output, tokens.input, _MILLION)
            + calc_unit_price(rates.get("requests_kcount"), 1, tokens.input, _THOUSAND)
        )
        return min(math.ceil(usd * NANO), MAX_NANO)


def price_list(config: PricesConfig) -> PriceList:
    """Return every price there is; the log says which models have none, and what to add."""

    def unlisted(model: str) -> None:
        line = line_to_add(model, config.unknown)
        log.warning("no price is known for a model; add below [prices.models]: %s", line)

    return PriceList(config, ShippedPrices(), unlisted)


def _find(model: str, provider: str | None) -> ModelInfo | None:
    if provider is not None and (info := _look_up(model, provider)) is not None:
        return info
    return _look_up(model, _ANY_PROVIDER)


def _look_up(model: str, provider: str) -> ModelInfo | None:
    # A snapshot remembers every name that it was ever asked for, so none is kept.
    snapshot = DataSnapshot(providers=providers, from_auto_update=False)
    try:
        return snapshot.find_provider_model(model, None, provider, None)[1]
    except LookupError:
        return None
