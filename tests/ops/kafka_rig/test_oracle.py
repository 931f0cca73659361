"""Cases go to Kafka's classes a line each, and answers come back in their order."""

from __future__ import annotations

import pytest

from ops.kafka_rig.oracle import Case, kafka_answers
from ops.kafka_rig.rig import Rig, RigError
from tests.ops.kafka_rig.programs import Programs


def test_each_case_has_its_answer(programs: Programs) -> None:
    """Whatever letters it holds."""
    programs.write("java", "cat")
    cases: list[Case] = [{"acls": []}, {"name": "\U0001f600\u2028"}]
    assert kafka_answers(Rig(""), cases) == cases


def test_a_case_that_is_not_understood_is_an_error(programs: Programs) -> None:
    """In the words of whoever did not understand it."""
    programs.write("java", "echo no such field >&2; exit 1")
    with pytest.raises(RigError, match="Oracle: exit code 1: no such field"):
        kafka_answers(Rig(""), [{}])
