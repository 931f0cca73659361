from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl
from authorizerd.management.plan.names import parse_acl
from authorizerd.management.plan.traffic import TrafficChange, TrafficCount, TrafficEvidence
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.local.evidence import judge_traffic
from authorizerd.replay.local.traffic import read_traffic
from authorizerd.replay.plans import IngestPlan
from tests.support.recorded_use import LAST_CLIENT_LINE, RecordedUse, read_recorded_use

LOG = "kafka-authorizer.log.xz"
BASE_INSTALL = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jinja2", "py4j", "pyarrow", "pyspark"):
            raise ModuleNotFoundError(f"{name} is not part of the base install", name=name)

sys.meta_path.insert(0, Blocker())
from authorizerd.acl.index.builder import build
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.replay.acl_set import AclSet, digest_of
from authorizerd.replay.local.evidence import judge_traffic
from authorizerd.replay.local.traffic import LogEngine
from authorizerd.replay.local.traffic import read_traffic
from authorizerd.replay.plans import IngestPlan, WhatIfPlan
from authorizerd.replay.whatif import evaluation as whatif

nothing = AclSet(source="none", acls=(), digest=digest_of(()))
everyone = AclSet(source="none", acls=(), digest=digest_of(()), allow_everyone_if_no_acl_found=True)
log, out = sys.argv[1:]
logs, plan = IngestPlan(inputs=(log,), out=out), WhatIfPlan(
    events="", out=out, candidate=nothing, baseline=everyone
)
assert whatif.run(plan, LogEngine(logs, out)) == 3
traffic = read_traffic(logs)
evidence = judge_traffic(traffic, build([]), build([]), AuthorizerSettings(frozenset(), True))
print(evidence.events, evidence.tuples)
"""


def judge(use: RecordedUse, log: Path, removed: set[Acl]) -> TrafficEvidence:
    acls = [dated.acl for dated in use.acls.acls]
    before, after = (
        AclIndex(some, use.acls.settings).snapshot
        for some in (acls, [acl for acl in acls if acl not in removed])
    )
    return judge_traffic(
        read_traffic(IngestPlan(inputs=(str(log),), out="")), before, after, use.acls.settings
    )


@pytest.mark.parametrize(("as_of", "count"), [(LAST_CLIENT_LINE, 1616), (None, 1751)])
def test_removing_unused_grants_denies_nothing(
    real_log_dir: Path, as_of: str | None, count: int
) -> None:
    use = read_recorded_use(real_log_dir, as_of)
    assert (len(use.acls.acls), len(use.unused)) == (count, 1456)
    evidence = judge(use, real_log_dir / LOG, set(use.unused))
    assert evidence.newly_denied == evidence.newly_allowed == TrafficChange()
    assert evidence.not_evaluated == {}
    # The ACLs at the end of the log contradict what was recorded under the earlier ones.
    drift = TrafficCount() if as_of else TrafficCount(events=2, tuples=1)
    assert evidence.not_reproduced == drift


def test_used_grants_are_named_as_causes(real_log_dir: Path) -> None:
    use = read_recorded_use(real_log_dir)
    ten = set(use.alone[:10])
    evidence = judge(use, real_log_dir / LOG, ten | set(use.unused))
    causes = evidence.newly_denied.causes
    assert len(ten) == 10
    assert {parse_acl(each.acl) for each in causes} == ten
    assert all(each.change == "delete" and each.events for each in causes)
    assert evidence.newly_allowed == TrafficChange()


def test_base_install_is_enough(real_log_dir: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BASE_INSTALL, str(real_log_dir / LOG), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout.splitlines()[-1]) == ("", "13518 4391")
