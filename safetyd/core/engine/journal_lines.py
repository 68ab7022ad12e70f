"""The journal's format: one event, one line of JSON."""

from collections.abc import Callable

import msgspec

from safetyd.core.events.daemon_events import (
    AuditRecovered,
    ClockStepped,
    ConfigRejected,
    DiskMoved,
    KeysChanged,
    SafetyEvent,
)
from safetyd.core.events.decision_events import (
    Decided,
    Overdue,
    Refused,
    Reported,
    SessionClosed,
    Settled,
    Transcribed,
    Withheld,
)
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    AnomalyFound,
    BreakerMoved,
    BudgetMarked,
    BudgetRaised,
    Forgotten,
    Paused,
    PersonSeen,
    Resumed,
    SafeModeEntered,
    SafeModeExited,
    Stopped,
    Unpaused,
)
from safetyd.core.events.history_events import (
    ArchiveFailed,
    BackupMade,
    CommitDue,
    CommitFailed,
    Committed,
    RollbackBegun,
    RollbackCancelled,
    RollbackFailed,
    RollbackOffered,
    RolledBack,
    SnapshotMissed,
    SnapshotTaken,
    WeekArchived,
)
from safetyd.core.events.notification_events import (
    Announced,
    ChannelMoved,
    Climbed,
    Due,
    LinkRevoked,
    NotTold,
    Told,
    Unparked,
)
from safetyd.core.events.request_events import (
    Answered,
    Cancelled,
    Claimed,
    Deferred,
    DenialLifted,
    EscalationDenied,
    Expired,
    Granted,
    GrantEnded,
    GrantRevoked,
    GrantUsed,
    Lapsed,
    Released,
    Superseded,
)
from safetyd.core.policy import Configured

AnyEvent = (
    Decided
    | Refused
    | Withheld
    | Reported
    | Settled
    | Overdue
    | SessionClosed
    | Transcribed
    | Stopped
    | Resumed
    | Paused
    | Unpaused
    | SafeModeEntered
    | SafeModeExited
    | BreakerMoved
    | BudgetMarked
    | BudgetRaised
    | AnomalyFound
    | PersonSeen
    | Forgotten
    | KeysChanged
    | Configured
    | ConfigRejected
    | ClockStepped
    | AuditRecovered
    | DiskMoved
    | Answered
    | Cancelled
    | Claimed
    | Deferred
    | DenialLifted
    | Expired
    | Lapsed
    | Released
    | Superseded
    | Granted
    | GrantUsed
    | GrantRevoked
    | GrantEnded
    | EscalationDenied
    | Due
    | Told
    | NotTold
    | Unparked
    | ChannelMoved
    | Climbed
    | Announced
    | LinkRevoked
    | CommitDue
    | Committed
    | CommitFailed
    | RollbackOffered
    | RollbackBegun
    | RollbackCancelled
    | RolledBack
    | RollbackFailed
    | SnapshotTaken
    | SnapshotMissed
    | BackupMade
    | WeekArchived
    | ArchiveFailed
    | SafetyEvent
)

encode: Callable[[Event], bytes] = msgspec.json.Encoder().encode
decode: Callable[[bytes], Event] = msgspec.json.Decoder(AnyEvent).decode
decode_batch: Callable[[bytes], list[Event]] = msgspec.json.Decoder(AnyEvent).decode_lines
