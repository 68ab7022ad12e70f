"""Prices of a model's tokens: the configured price, else a known price, else `prices.unknown`."""

import functools
import logging
import re
from collections.abc import Callable
from datetime import datetime
from fnmatch import translate
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from safetyd.core.messages.money import MAX_NANO
from safetyd.core.messages.proposal import Proposal, Tokens
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.open_actions import Action

log = logging.getLogger("safetyd")

MAX_SAID: Final = 1000  # maximum number of unknown models to log, because agents choose the names
_PICO: Final = 10**6  # at one dollar per million tokens, a token costs this many pico-dollars
_PICO_IN_NANO: Final = 1000
_SPECIAL: Final = re.compile(r"([*?[])")
UsdPerMillion = Annotated[float, Meta(ge=0, le=1e6)]
NotFree = Annotated[float, Meta(ge=0.01, le=1e6)]


class PriceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens. Input and output are required."""

    input: UsdPerMillion
    output: UsdPerMillion
    cached: UsdPerMillion | None = None  # input that the provider had cached; default: input


class UnknownPriceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    input: NotFree = 15.0
    output: NotFree = 75.0


class PricesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    unknown: UnknownPriceConfig = UnknownPriceConfig()
    models: dict[str, PriceConfig] = {}  # patterns, case-insensitive; the first match counts


class Prices(Protocol):
    """A source of prices."""

    def price(self, model: str, provider: str | None, tokens: Tokens, at: datetime) -> int | None:
        """Return the price in nano-dollars, or None if the model is unknown."""
        ...


class ConfiguredPrices:
    """The configured prices."""

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
    """Returns a price for any model. `unlisted` is called once for each unknown model."""

    def __init__(
        self, config: PricesConfig, known: Prices, unlisted: Callable[[str], None]
    ) -> None:
        self._tables: tuple[Prices, ...] = (ConfiguredPrices(config), known)
        self._unknown = PriceRate(config.unknown)
        self._unlisted = unlisted
        self._said: set[str] = set()

    def of_proposal(self, proposal: Proposal, at: datetime) -> int | None:
        """Return the price of a proposal's tokens in nano-dollars, or None if it has no tokens."""
        if proposal.tokens is None:
            return None
        return self._price(proposal.model, proposal.provider, proposal.tokens, at)

    def of_outcome(self, outcome: Outcome, begun: Action | None, at: datetime) -> int | None:
        """Return the price of an outcome's tokens in nano-dollars, or None if it has no tokens.

        If outcome and proposal name different models, the higher price counts.
        """
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
        cached = config.cached if isinstance(config, PriceConfig) else None
        self._cached = self._input if cached is None else round(cached * _PICO)

    def price(self, tokens: Tokens) -> int:
        cached = min(tokens.cached, tokens.input)
        fresh = tokens.input - cached
        pico = fresh * self._input + cached * self._cached + tokens.output * self._output
        return min(-(-pico // _PICO_IN_NANO), MAX_NANO)


def line_to_add(model: str, unknown: UnknownPriceConfig) -> str:
    """Return the line for `[prices.models]` that sets the price of a model."""
    glob = _SPECIAL.sub(r"[\1]", model)
    name = msgspec.json.encode(glob).decode().replace("\x7f", "\\u007f")
    return f"{name} = {{ input = {unknown.input:g}, output = {unknown.output:g} }}"


def _glob(glob: str) -> Callable[[str], object]:
    return re.compile(translate(glob), re.IGNORECASE).match


class ShippedPrices:
    """The known prices, loaded on first use."""

    @functools.cached_property
    def _table(self) -> Prices:
        from safetyd.agents.price_table import PriceTable  # noqa: PLC0415 - a sixth of a start

        return PriceTable()

    def price(self, model: str, provider: str | None, tokens: Tokens, at: datetime) -> int | None:
        return self._table.price(model, provider, tokens, at)


def load_known_prices() -> None:
    """Load the known prices. This is slow, so call it in another thread."""
    import safetyd.agents.price_table  # noqa: F401, PLC0415 - see ShippedPrices


def price_list(config: PricesConfig) -> PriceList:
    """Return the prices. For each unknown model, log the line to add to the configuration."""

    def unlisted(model: str) -> None:
        line = line_to_add(model, config.unknown)
        log.warning("unknown model price; to set it, add under [prices.models]: %s", line)

    return PriceList(config, ShippedPrices(), unlisted)
