"""Proposals that are restricted for what they are: by classify, gate, scores and anomalies."""

from datetime import timedelta

from safetyd.core.action_types import TypeConfig
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.guards.anomaly.presence import HumanConfig
from safetyd.core.guards.anomaly.proposal_detectors import (
    LoopActionType,
    RapidActions,
    RapidIdentical,
    RepeatedAction,
    TimeSkew,
)
from safetyd.core.guards.gate.gate_config import ConfidenceConfig
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.guards.rules import CustomRule, RulesConfig, When
from safetyd.core.guards.scores import ScoresConfig
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from tests.core.engine.remedy_story import (
    HOME,
    ROOT,
    Story,
    gate,
    rules,
    scores,
    several,
    severe,
    shop,
)
from tests.story import at, propose

JUDGED: dict[str, Story] = {
    "a type that is asked about": Story(
        propose(0, type="push"),
        "with push in rules.allow_without_permission",
        propose(0, type="push"),
        wanted=rules(allow_without_permission=("push",)),
    ),
    "a type that speaks to people": Story(
        propose(0, type="send_email"),
        "with send_email in rules.allow_without_permission; "
        "and with allow_human_communication = true; "
        "and with a target.name that is one of known_contacts",
        propose(0, type="send_email", target=Target(name="ann")),
        policy=rules(known_contacts=("ann",)),
        wanted=rules(
            allow_without_permission=("send_email",),
            allow_human_communication=True,
            known_contacts=("ann",),
        ),
    ),
    "a type that is allowed and speaks to people": Story(
        propose(0, type="comment"),
        "with allow_human_communication = true",
        propose(0, type="comment"),
        policy=rules(allow_without_permission=("comment",)),
        wanted=rules(allow_without_permission=("comment",), allow_human_communication=True),
    ),
    "a type that nobody knows": Story(
        propose(0, type="fly to", reversibility="irreversible"),
        "without the risk and reversibility that it gives itself; "
        'and with [types.fly_to] tier = "auto_allowed"',
        propose(0, type="fly to"),
        wanted=Policy(types={"fly_to": TypeConfig(tier="auto_allowed")}),
    ),
    "a prohibited type": Story(
        propose(0, type="change_password"),
        'with [types.change_password] tier = "auto_allowed" and risk = "medium"',
        propose(0, type="change_password"),
        wanted=Policy(types={"change_password": TypeConfig(tier="auto_allowed", risk="medium")}),
    ),
    "an agent's own words": Story(
        propose(0, type="edit_file", risk="prohibited"),
        "without the risk and reversibility that it gives itself",
        propose(0, type="edit_file"),
    ),
    "a type that must be permitted": Story(
        propose(0, type="push"),
        "without push in require_permission; and with push in rules.allow_without_permission",
        propose(0, type="push"),
        policy=rules(require_permission=("push",)),
        wanted=rules(allow_without_permission=("push",)),
    ),
    "a rule": Story(
        propose(0, type="edit_file", cost_usd=2),
        "where the rule dear does not match (types edit_file; cost_over_usd 1.0)",
        propose(0, type="edit_file", cost_usd=1),
        policy=rules(
            custom=(
                CustomRule(
                    name="dear",
                    when=When(types=("edit_file",), cost_over_usd=1.0),
                    then=Severity.BLOCK,
                ),
            )
        ),
    ),
    "a rule that always holds": Story(
        propose(0),
        "where the rule closed does not match (it always does)",
        propose(0),
        policy=rules(custom=(CustomRule(name="closed", then=Severity.ASK),)),
        wanted=Policy(),
    ),
    "paths outside the project": Story(
        propose(0, project="shop", paths=["/etc/motd", "~/x"]),
        "with paths inside /srv/shop",
        propose(0, project="shop", paths=["a"]),
        policy=shop(),
    ),
    "deleting at home by a rule": Story(
        propose(0, type="delete_file", project="shop", paths=["a"]),
        "without delete_file in require_permission",
        propose(0, type="delete_file", project="shop", paths=["a"]),
        policy=Policy(
            profile="coding",
            rules=RulesConfig(require_permission=("delete_file",)),
            projects={"shop": ProjectConfig(root=ROOT, agents=("code",))},
        ),
        wanted=Policy(
            profile="coding", projects={"shop": ProjectConfig(root=ROOT, agents=("code",))}
        ),
    ),
    "sensitive paths": Story(
        propose(0, paths=["a", ".ssh/id", "x.pem"]),
        "without '.ssh/id'; and without 'x.pem'",
        propose(0, paths=["a"]),
    ),
    "memory operations": Story(
        propose(9, type="memory_write"),
        "in a new session, or with memory_per_session = 3",
        propose(9, type="memory_write", session="other"),
        before=several(2, type="memory_write"),
        policy=rules(memory_per_session=2),
    ),
    "memory operations with a larger cap": Story(
        propose(9, type="memory_write"),
        "with memory_per_session = 1",
        propose(9, type="memory_write"),
        policy=rules(memory_per_session=0),
        wanted=rules(memory_per_session=1),
    ),
    "a broken file": Story(
        propose(0, project="shop"),
        "once .safetyd.toml can be used",
        propose(0, project="shop"),
        policy=shop(file=".safetyd.toml", file_broken="line 1"),
        wanted=shop(file=".safetyd.toml"),
    ),
    "words": Story(
        propose(0, type="click", text="pay"),
        r"with words that do not match \bpay\b; and with words that do not match p.y",
        propose(0, type="click", text="look"),
        policy=gate(irreversible_patterns=(r"\bpay\b", "p.y")),
    ),
    "a secret": Story(
        propose(0, type="type", target=Target(label="PIN"), text="1"),
        "in a field that does not match pin",
        propose(0, type="type", target=Target(label="Name"), text="1"),
        policy=gate(credential_patterns=("pin",)),
    ),
    "a loop": Story(
        propose(9, type="click", observation=HOME),
        "after another action that was not tried yet, or in a new episode",
        propose(9, type="click", observation=HOME),
        before=several(2, type="click", observation=HOME),
        done=(propose(8, id="d", type="click", text="other", observation=HOME),),
    ),
    "a loop in which states count": Story(
        propose(9, type="click", observation=HOME),
        "in a new episode",
        propose(9, type="click", observation=HOME, episode="e"),
        before=several(2, type="click", observation=HOME),
        policy=gate(loop_counts="states"),
    ),
    "another app": Story(
        propose(0, type="click", target=Target(app="Mail")),
        "with target and observation in app 'Chrome'",
        propose(0, type="click", target=Target(app="Chrome"), observation=HOME),
        policy=gate(expected_app="Chrome"),
    ),
    "low confidence": Story(
        propose(0, type="edit_file", confidence=0.5),
        "with confidence >= 0.7",
        propose(0, type="edit_file", confidence=0.7),
        too_soon=propose(0, type="edit_file", confidence=0.69),
    ),
    "no confidence": Story(
        propose(0, type="edit_file"),
        "with confidence >= 0.7",
        propose(0, type="edit_file", confidence=0.7),
        policy=Policy(confidence=ConfidenceConfig(required_for=("medium",))),
    ),
    "a character that cannot be seen": Story(
        propose(0, type="click", text="a\u202eb"),
        "without the character U+202E or others like it",
        propose(0, type="click", text="ab"),
    ),
    "mixed letters": Story(
        propose(0, type="click", text="p\u0430y"),
        "with words of one alphabet each",
        propose(0, type="click", text="p"),
        policy=gate(irreversible_patterns=()),
    ),
    "low scores": Story(
        propose(0, scores=scores(autonomy=1, quality=1)),
        "with an average score of 4.0 or more; and with every score above 1.0; "
        "and with autonomy_appropriateness above 2.0",
        propose(0, scores=scores(autonomy=3, quality=2)),
    ),
    "no scores": Story(
        propose(0),
        "with scores; and with an average score of 4.0 or more; "
        "and with every score above 1.0; and with autonomy_appropriateness above 2.0",
        propose(0, scores=scores(autonomy=3, quality=2)),
        policy=Policy(scores=ScoresConfig(required_for=("low",))),
    ),
    "rapid requests": Story(
        propose(2),
        "after 8.0 s",
        propose(10),
        before=several(2),
        policy=severe(rapid_identical=RapidIdentical(severity="high", count=3)),
        too_soon=propose(9.9),
    ),
    "a repeated action": Story(
        propose(9),
        "after another action",
        propose(9),
        before=several(2),
        done=(propose(8, id="d", type="git_log"),),
        policy=severe(repeated_action=RepeatedAction(severity="high", max=2)),
    ),
    "acts of one type": Story(
        propose(9, type="edit_file"),
        "after an action of another type",
        propose(9, type="edit_file"),
        before=several(1, type="edit_file"),
        done=(propose(8, id="d", type="create_file"),),
        policy=severe(loop_action_type=LoopActionType(severity="high", last=2, at_least=2)),
    ),
    "rapid acts": Story(
        propose(1, type="edit_file"),
        "5 s after the act before it",
        propose(5, type="edit_file"),
        before=several(1, type="edit_file"),
        policy=severe(rapid_actions=RapidActions(severity="high", last=2, at_least=2)),
        too_soon=propose(4.9, type="edit_file"),
    ),
    "a clock that is wrong": Story(
        propose(0, at=at(0) + timedelta(seconds=31)),
        "with an `at` within 30 s of the daemon's clock",
        propose(0, at=at(0) + timedelta(seconds=30)),
        policy=severe(time_skew=TimeSkew(severity="high")),
    ),
    "nobody is there": Story(
        propose(7201, type="push"),
        "once a person gave a command, such as `safetyd ack`",
        propose(7202, type="push"),
        before=(PersonSeen(at=at(0), t=0, by="alice", how="ack"),),
        done=(PersonSeen(at=at(7201), t=7201, by="alice", how="ack"),),
        policy=Policy(
            human=HumanConfig(confirm_after_h=2),
            rules=RulesConfig(allow_without_permission=("push",)),
        ),
    ),
}
