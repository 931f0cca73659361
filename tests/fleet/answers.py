"""Whether a state of the log explains an answer: the one judgement of chaos, soak and stories.

Chaos reads the decisions of all offsets from timelines, which the same plain scan makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from authorizerd.acl.model import Acl, Question
from tests.oracles.scan import decide

Settings = tuple[frozenset[str], bool]
"""The super users, and whether everyone is allowed what no ACL is about."""
STRICT: Final[Settings] = (frozenset(), False)


def find_wrong(
    acls: frozenset[Acl],
    asked: Sequence[Question],
    decisions: Sequence[bool],
    settings: Sequence[Settings] = (STRICT,),
) -> str | None:
    """Return the first decision that these ACLs do not explain, None if they explain all.

    Args:
        settings: those that may have been in force, also different ones for each question.
    """
    if len(asked) != len(decisions):
        return f"{len(decisions)} decisions for {len(asked)} questions"
    for question, decision in zip(asked, decisions, strict=True):
        rule = None
        for super_users, allow_everyone in settings:
            expected, rule = decide(acls, allow_everyone=allow_everyone, question=question)
            if (expected or question.principal in super_users) is decision:
                break
        else:
            return f"expected {not decision} for {question} by {rule}, found {decision}"
    return None
