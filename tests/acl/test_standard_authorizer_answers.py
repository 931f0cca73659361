"""Every recorded answer of Kafka 4.3.1's own classes equals ours by the rules of 4.3."""

from __future__ import annotations

import pytest

from authorizerd.acl.releases import RULES_4_3
from tests.acl.recorded_answers import *  # noqa: F403 - the tests, by their list
from tests.acl.recorded_answers import Recording
from tests.oracles.standard_authorizer import FILE, control_cases, decision_cases


@pytest.fixture(scope="module")
def recording() -> Recording:
    return Recording(FILE, RULES_4_3)


def test_the_recording_is_complete() -> None:
    """2,625 cases of decisions, and 375 of creations and deletions."""
    decisions = decision_cases()
    assert (len(decisions), len(control_cases())) == (2625, 375)
    assert sum(len(case["requests"]) for case in decisions) == 26_601
    audited = [line for case in decisions for line in case["expect"].get("audit", ())]
    assert sum(line is not None for line in audited) > 1800
