"""Every recorded answer of Kafka 4.4.0's own classes equals ours by the rules of 4.4."""

from __future__ import annotations

import pytest

from authorizerd.acl.releases import RULES_4_4
from tests.acl.recorded_answers import *  # noqa: F403 - the tests, by their list
from tests.acl.recorded_answers import Recording
from tests.oracles.standard_authorizer import FILE_4_4


@pytest.fixture(scope="module")
def recording() -> Recording:
    return Recording(FILE_4_4, RULES_4_4)
