from safetyd.bus.subjects import AGENT_VERBS, OPERATOR_VERBS, Subjects


def test_all_subjects_have_one_prefix() -> None:
    subjects = Subjects("acme.gate")

    assert subjects.of("propose", "code") == "acme.gate.propose.code"
    assert subjects.keyless("propose", "code") == "acme.gate.open.propose.code"
    assert subjects.journal == "acme.gate.journal.0"
    assert subjects.internal("stop") == "acme.gate.internal.stop"
    assert subjects.canary("b00t-main") == "acme.gate.canary.b00t-main"


def test_reserved_words_are_not_verbs() -> None:
    own = {"journal", "internal", "canary", "open", "decision", "event", "state"}

    assert own.isdisjoint((*AGENT_VERBS, *OPERATOR_VERBS))
    assert set(AGENT_VERBS).isdisjoint(OPERATOR_VERBS)
