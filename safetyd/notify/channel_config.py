"""What an operator sets about channels: each has a table, and secrets are in files of their own."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from safetyd.core.messages.proposal import Urgency
from safetyd.core.recipients import BatchMode, Day, Strategy, Summaries, TimeOfDay
from safetyd.notify.message import Privacy

Port = Annotated[int, Meta(ge=1, le=65535)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
To = str | tuple[str, ...]


class EmailConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = False
    to: To = ()
    from_: str = msgspec.field(name="from", default="")
    provider: Literal["smtp", "sendgrid", "ses"] = "smtp"
    smtp_host: str = ""
    smtp_port: Port = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str = ""
    password_file: str = ""
    ca_file: str = ""  # to trust besides what the system trusts
    region: str = "us-east-1"  # of provider "ses"
    privacy: Privacy = "full"


class SmsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = False
    to: To = ()
    from_: str = msgspec.field(name="from", default="")
    provider: Literal["twilio"] = "twilio"
    account_sid: str = ""
    auth_token_file: str = ""
    api_url: str = ""
    max_risk: Literal["low", "medium", "high"] = "high"  # that a reply may approve
    privacy: Privacy = "full"


class DesktopConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = True
    helper: bool = False  # shown by `safetyd desktop` in the person's own session
    privacy: Privacy = "full"


class WebhookConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = False
    url: str = ""
    secret_file: str = ""  # a line each; the first signs, others are signed with beside it
    include_links: bool = False
    privacy: Privacy = "full"


class NtfyConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = False
    url: str = ""  # of the server and topic
    token_file: str = ""
    include_code: bool = False  # who reads the topic could approve
    privacy: Privacy = "full"


class AppriseConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,32}$")]
    url_file: str  # a line each
    privacy: Privacy = "full"


class NotificationsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    strategy: Strategy = "all"
    order: tuple[str, ...] = ("desktop", "email", "sms", "webhook")
    min_urgency: Urgency = "low"
    batch_interval_seconds: Seconds = 60.0
    batch_mode: BatchMode = "trailing"
    alert_batch_seconds: Seconds = 600.0
    summaries: Summaries = "each"
    daily_report: bool = False  # to everybody whose own table does not say otherwise
    report_at: TimeOfDay = "07:00"  # of `timezone`
    quiet_start: TimeOfDay = "23:00"
    quiet_end: TimeOfDay = "07:00"
    quiet_days: tuple[Day, ...] = ()
    quiet_bypass: Literal["high", "none"] = "high"
    timezone: str = ""  # an IANA name; empty: the system's
    email: EmailConfig = EmailConfig()
    sms: SmsConfig = SmsConfig()
    desktop: DesktopConfig = DesktopConfig()
    webhook: WebhookConfig = WebhookConfig()
    ntfy: NtfyConfig = NtfyConfig()
    apprise: tuple[AppriseConfig, ...] = ()


class RecipientConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[recipients]]` table; what it leaves out is everybody's."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    email: str = ""
    sms: str = ""
    timezone: str = ""
    daily_report: bool | None = None
    quiet_start: TimeOfDay | None = None
    quiet_end: TimeOfDay | None = None
    quiet_days: tuple[Day, ...] | None = None
    agents: tuple[str, ...] = ("*",)
    backup: str = ""
