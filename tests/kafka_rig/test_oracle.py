"""Cases are sent to Kafka's classes, one per line."""

from __future__ import annotations

import pytest

from tests.kafka_rig.oracle import Case, kafka_answers
from tests.kafka_rig.programs import Programs
from tests.kafka_rig.rig import Rig, RigError


def test_answers_are_in_the_order_of_the_cases(programs: Programs) -> None:
    programs.write("java", "cat")
    cases: list[Case] = [{"acls": []}, {"name": "\U0001f600\u2028"}]
    assert kafka_answers(Rig(""), cases) == cases


def test_unreadable_case_is_an_error(programs: Programs) -> None:
    programs.write("java", "echo no such field >&2; exit 1")
    with pytest.raises(RigError, match="Oracle: exit code 1: no such field"):
        kafka_answers(Rig(""), [{}])
