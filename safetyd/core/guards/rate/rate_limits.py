"""The default rates of each mode. If a table sets one number, the other defaults stay."""

from typing import Annotated

import msgspec
from msgspec import Meta

Tokens = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class BucketConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token bucket. It starts full."""

    tokens_per_minute: Tokens  # one token is one proposal, not a token of a model
    burst: Tokens


class DevelopmentGlobal(BucketConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tokens_per_minute: Tokens = 240
    burst: Tokens = 240


class DevelopmentAgent(BucketConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tokens_per_minute: Tokens = 60
    burst: Tokens = 60


class DevelopmentModel(BucketConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tokens_per_minute: Tokens = 120
    burst: Tokens = 120


class ProductionGlobal(BucketConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tokens_per_minute: Tokens = 6000
    burst: Tokens = 1500


class ProductionAgent(BucketConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tokens_per_minute: Tokens = 300
    burst: Tokens = 120


class ProductionModel(BucketConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tokens_per_minute: Tokens = 1200
    burst: Tokens = 400


class ModeRates(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"global_": "global"},
):
    """The buckets of one mode: common, per agent and per model."""

    global_: BucketConfig
    agent: BucketConfig
    model: BucketConfig


class DevelopmentRates(ModeRates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    global_: DevelopmentGlobal = DevelopmentGlobal()
    agent: DevelopmentAgent = DevelopmentAgent()
    model: DevelopmentModel = DevelopmentModel()


class ProductionRates(ModeRates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    global_: ProductionGlobal = ProductionGlobal()
    agent: ProductionAgent = ProductionAgent()
    model: ProductionModel = ProductionModel()
