"""Proposals that classify, gate, scores and anomaly restrict."""

from datetime import timedelta
from typing import Any

import msgspec

from safetyd.core.action_types import TypeConfig
from safetyd.core.approvals.request import ApprovalsConfig
from safetyd.core.events.decision_events import Proposed
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.guards.anomaly.presence import HumanConfig
from safetyd.core.guards.anomaly.proposal_detectors import (
    LoopActionType,
    RapidActions,
    RapidIdentical,
    RepeatedAction,
    TimeSkew,
)
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.gate.gate_config import ConfidenceConfig, GateConfig
from safetyd.core.guards.gate.own_config import OwnConfig
from safetyd.core.guards.host_files import HostFilesSeen
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
from tests.core.text.patch_samples import unified
from tests.story import at, propose


def _called(**fields: Any) -> Proposed:
    return msgspec.structs.replace(propose(0, **fields), host="claude")


def _loading(*changed: str, unseen: str = "") -> Proposed:
    """Return a call before which a host would load other files."""
    seen = HostFilesSeen(states={"/srv": "9f86"}, changed=changed, unseen=unseen)
    return _called(context={"host_files": msgspec.to_builtins(seen)})


JUDGED: dict[str, Story] = {
    "a type that is asked about": Story(
        propose(0, type="push"),
        propose(0, type="push"),
        wanted=rules(allow_without_permission=("push",)),
    ),
    "a type that speaks to people": Story(
        propose(0, type="send_email"),
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
        propose(0, type="comment"),
        policy=rules(allow_without_permission=("comment",)),
        wanted=rules(allow_without_permission=("comment",), allow_human_communication=True),
    ),
    "a type that nobody knows": Story(
        propose(0, type="fly to", reversibility="irreversible"),
        propose(0, type="fly to"),
        wanted=Policy(types={"fly_to": TypeConfig(tier="auto_allowed")}),
    ),
    "a prohibited type": Story(
        propose(0, type="change_password"),
        propose(0, type="change_password"),
        wanted=Policy(types={"change_password": TypeConfig(tier="auto_allowed", risk="medium")}),
    ),
    "an agent's own words": Story(
        propose(0, type="edit_file", risk="prohibited"),
        propose(0, type="edit_file"),
    ),
    "a type that must be permitted": Story(
        propose(0, type="push"),
        propose(0, type="push"),
        policy=rules(require_permission=("push",)),
        wanted=rules(allow_without_permission=("push",)),
    ),
    "a rule": Story(
        propose(0, type="edit_file", cost_usd=2),
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
        propose(0),
        policy=rules(custom=(CustomRule(name="closed", then=Severity.ASK),)),
        wanted=Policy(),
    ),
    "paths outside the project": Story(
        propose(0, project="shop", paths=["/etc/motd", "~/x"]),
        propose(0, project="shop", paths=["a"]),
        policy=shop(),
    ),
    "deleting at home by a rule": Story(
        propose(0, type="delete_file", project="shop", paths=["a"]),
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
        propose(0, cwd="/srv", paths=["a", ".ssh/id", "x.pem"]),
        propose(0, cwd="/srv", paths=["a"]),
    ),
    "memory operations": Story(
        propose(9, type="memory_write"),
        propose(9, type="memory_write", session="other"),
        before=several(2, type="memory_write"),
        policy=rules(memory_per_session=2),
    ),
    "memory operations with a larger cap": Story(
        propose(9, type="memory_write"),
        propose(9, type="memory_write"),
        policy=rules(memory_per_session=0),
        wanted=rules(memory_per_session=1),
    ),
    "a broken file": Story(
        propose(0, project="shop"),
        propose(0, project="shop"),
        policy=shop(file=".safetyd.toml", file_broken="line 1"),
        wanted=shop(file=".safetyd.toml"),
    ),
    "words": Story(
        propose(0, type="click", text="pay"),
        propose(0, type="click", text="look"),
        policy=gate(irreversible_patterns=(r"\bpay\b", "p.y")),
    ),
    "a secret": Story(
        propose(0, type="type", target=Target(label="PIN"), text="1"),
        propose(0, type="type", target=Target(label="Name"), text="1"),
        policy=gate(credential_patterns=("pin",)),
    ),
    "a loop": Story(
        propose(9, type="click", observation=HOME),
        propose(9, type="click", observation=HOME),
        before=several(2, type="click", observation=HOME),
        done=(propose(8, id="d", type="click", text="other", observation=HOME),),
    ),
    "a loop in which states count": Story(
        propose(9, type="click", observation=HOME),
        propose(9, type="click", observation=HOME, episode="e"),
        before=several(2, type="click", observation=HOME),
        policy=gate(loop_counts="states"),
    ),
    "another app": Story(
        propose(0, type="click", target=Target(app="Mail")),
        propose(0, type="click", target=Target(app="Chrome"), observation=HOME),
        policy=gate(expected_app="Chrome"),
    ),
    "low confidence": Story(
        propose(0, type="edit_file", confidence=0.5),
        propose(0, type="edit_file", confidence=0.7),
        too_soon=propose(0, type="edit_file", confidence=0.69),
    ),
    "no confidence": Story(
        propose(0, type="edit_file"),
        propose(0, type="edit_file", confidence=0.7),
        policy=Policy(confidence=ConfidenceConfig(required_for=("medium",))),
    ),
    "a character that cannot be seen": Story(
        propose(0, type="click", text="a\u202eb"),
        propose(0, type="click", text="ab"),
    ),
    "mixed letters": Story(
        propose(0, type="click", text="p\u0430y"),
        propose(0, type="click", text="p"),
        policy=gate(irreversible_patterns=()),
    ),
    "files of a host": Story(_loading("/srv/CLAUDE.md: new"), _called()),
    "files that nobody can read": Story(_loading(unseen="no permission"), _called()),
    "low scores": Story(
        propose(0, scores=scores(autonomy=1, quality=1)),
        propose(0, scores=scores(autonomy=3, quality=2)),
    ),
    "no scores": Story(
        propose(0),
        propose(0, scores=scores(autonomy=3, quality=2)),
        policy=Policy(scores=ScoresConfig(required_for=("low",))),
    ),
    "rapid requests": Story(
        propose(2),
        propose(10),
        before=several(2),
        policy=severe(rapid_identical=RapidIdentical(severity="high", count=3)),
        too_soon=propose(9.9),
    ),
    "a repeated action": Story(
        propose(9),
        propose(9),
        before=several(2),
        done=(propose(8, id="d", type="git_log"),),
        policy=severe(repeated_action=RepeatedAction(severity="high", max=2)),
    ),
    "acts of one type": Story(
        propose(9, type="edit_file"),
        propose(9, type="edit_file"),
        before=several(1, type="edit_file"),
        done=(propose(8, id="d", type="create_file"),),
        policy=severe(loop_action_type=LoopActionType(severity="high", last=2, at_least=2)),
    ),
    "rapid acts": Story(
        propose(1, type="edit_file"),
        propose(5, type="edit_file"),
        before=several(1, type="edit_file"),
        policy=severe(rapid_actions=RapidActions(severity="high", last=2, at_least=2)),
        too_soon=propose(4.9, type="edit_file"),
    ),
    "a clock that is wrong": Story(
        propose(0, at=at(0) + timedelta(seconds=31)),
        propose(0, at=at(0) + timedelta(seconds=30)),
        policy=severe(time_skew=TimeSkew(severity="high")),
    ),
    "nobody is there": Story(
        propose(7201, type="push"),
        propose(7202, type="push"),
        before=(PersonSeen(at=at(0), t=0, by="alice", how="ack"),),
        done=(PersonSeen(at=at(7201), t=7201, by="alice", how="ack"),),
        policy=Policy(
            human=HumanConfig(confirm_after_h=2),
            rules=RulesConfig(allow_without_permission=("push",)),
        ),
    ),
}

# Sentences that no story above has. Their remedies are tried where the rule is tested.
DIFF = "diff --git a/run.sh b/run.sh\n"
ENVRC = unified("a/.envrc", "b/.envrc")
CODING = Policy(profile="coding")
ONE_LATER = propose(0.1, id="later", type="push", text="git push 2")
WORDED: dict[str, Story] = {
    "a type like another": Story(propose(0, type="Red File")),
    "a type that is no plain word": Story(propose(0, type='z"\u4e2d')),
    "a type of high risk": Story(propose(0, type="open_port")),
    "a shell command without a text": Story(propose(0, type="run_shell"), policy=CODING),
    "a type whose effect is unknown": Story(propose(0, type="run_shell", text="make")),
    "a type that is only in a tier": Story(
        propose(0, type="peek"),
        policy=Policy(
            types={
                "peek": TypeConfig(
                    tier="requires_permission", risk="low", reversibility="reversible"
                )
            }
        ),
    ),
    "an agent's own risk": Story(propose(0, type="click", risk="high")),
    "a contact that is not known": Story(
        propose(0, type="comment", target=Target(name='eve "x"')),
        policy=rules(
            allow_without_permission=("comment",),
            allow_human_communication=True,
            known_contacts=("ann",),
        ),
    ),
    "a path that may lead outside": Story(
        propose(0, project="shop", paths=["$X/a"]), policy=shop()
    ),
    "a relative path without a folder": Story(
        propose(0, paths=["a"]), propose(0, cwd="/srv", paths=["a"])
    ),
    "the target of a link": Story(propose(0, paths=["/a"], resolved=("/a/.ssh/x",))),
    "paths that cannot be followed": Story(propose(0, paths=["/a"], resolved=("",))),
    "a path that controls programs": Story(propose(0, type="edit_file", paths=["/srv/.envrc"])),
    "a command that names secrets": Story(
        propose(0, type="run_shell", text="cat .env"), policy=CODING
    ),
    "typed text that names secrets": Story(propose(0, type="type", text="hunter2.pem")),
    "a patch outside the project": Story(
        propose(0, type="edit_file", project="shop", text=unified("../x", "../x")), policy=shop()
    ),
    "a patch of what controls programs": Story(propose(0, type="edit_file", text=ENVRC)),
    "a patch that makes a program": Story(
        propose(0, type="edit_file", text=f"{DIFF}new file mode 100755\n")
    ),
    "a patch that makes a link": Story(
        propose(0, type="edit_file", text=f"{DIFF}new file mode 120000\n")
    ),
    "a mode in the context": Story(
        propose(0, type="create_file", paths=["/srv/run.sh"], context={"mode": "0755"})
    ),
    "a patch that is cut off": Story(propose(0, type="edit_file", text=ENVRC[:-3])),
    "the blocklist": Story(propose(0, type="click", target=Target(label="Delete account"))),
    "the blocklist in typed text": Story(propose(0, type="type", text="delete me")),
    "a button": Story(propose(0, type="click", target=Target(label="Review and place order"))),
    "a shell pattern": Story(
        propose(0, type="run_shell", text="git push"),
        policy=Policy(profile="coding", gate=GateConfig(shell="patterns")),
    ),
    "a command": Story(
        propose(0, type="run_shell", text="git push; rm -rf ~/music"), policy=CODING
    ),
    "no window": Story(propose(0, type="click"), policy=gate(expected_window_pattern="Shop")),
    "safetyd's name": Story(propose(0, type="click", text="stop safetyd")),
    "safetyd's key": Story(propose(0, type="click", target=Target(name="operator.nk"))),
    "safetyd's file": Story(propose(0, cwd="/srv", paths=["keys/operator.nk"])),
    "above safetyd's files": Story(
        propose(0, type="edit_file", paths=["/srv"]),
        policy=Policy(own=OwnConfig(directories=("/srv/real",))),
    ),
    "a purchase": Story(
        propose(0, type="purchase", cost_usd=12),
        policy=Policy(
            budget=BudgetConfig(day_usd=10, session_usd=0),
            rules=RulesConfig(allow_without_permission=("purchase",)),
        ),
    ),
    "too many pending requests": Story(
        ONE_LATER,
        before=(propose(0, type="push", text="git push 1"),),
        policy=Policy(approvals=ApprovalsConfig(max_pending_per_agent=1)),
    ),
    "a permission without its text": Story(
        msgspec.structs.replace(propose(0, type="run_shell"), permission=True)
    ),
    "an id that was used": Story(propose(1, digest="sha256:other"), before=(propose(0),)),
}
