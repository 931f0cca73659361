from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from authorizerd.replay.judging.index import build_index
from authorizerd.replay.judging.report import Count
from authorizerd.replay.local.causes import ChangedAcls, ChangedRequest
from authorizerd.replay.local.comparing import Comparison, compare
from authorizerd.replay.local.traffic import read_traffic
from tests.support.recorded_use import LAST_CLIENT_LINE, RecordedUse, read_recorded_use

LOG = "kafka-authorizer.log.xz"
BASE_INSTALL = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jinja2", "py4j", "pyarrow", "pyspark"):
            raise ModuleNotFoundError(f"{name} is not part of the base install", name=name)

sys.meta_path.insert(0, Blocker())
from authorizerd.replay.judging.index import build_index
from authorizerd.replay.local.causes import ChangedAcls
from authorizerd.replay.local.comparing import compare, report_comparison
from authorizerd.replay.local.traffic import read_traffic
from authorizerd.replay.acl_set import AclSet, digest_of

nothing = AclSet(source="none", acls=(), digest=digest_of(()))
everyone = AclSet(source="none", acls=(), digest=digest_of(()), allow_everyone_if_no_acl_found=True)
traffic = read_traffic(sys.argv[1:])
comparison = compare(traffic.tuples, build_index(everyone), build_index(nothing))
report = report_comparison(traffic, everyone, nothing, comparison)
print(report.newly_denied.events, report.newly_denied.tuples, ChangedAcls([], []) and "")
"""


def judge(use: RecordedUse, log: Path, removed: set[object]) -> Comparison:
    kept = [dated.acl for dated in use.acls.acls if dated.acl not in removed]
    candidate = use.acls.with_acls(kept, "candidate")
    return compare(read_traffic([str(log)]).tuples, build_index(use.acls), build_index(candidate))


@pytest.mark.parametrize(("as_of", "count"), [(LAST_CLIENT_LINE, 1616), (None, 1751)])
def test_removing_unused_grants_denies_nothing(
    real_log_dir: Path, as_of: str | None, count: int
) -> None:
    use = read_recorded_use(real_log_dir, as_of)
    assert (len(use.acls.acls), len(use.unused)) == (count, 1456)
    comparison = judge(use, real_log_dir / LOG, set(use.unused))
    assert (comparison.changes, comparison.not_evaluated) == ([], {})
    # The ACLs at the end of the log contradict what was recorded under the earlier ones.
    drift = Count() if as_of else Count(events=2, tuples=1)
    assert comparison.not_reproduced == drift


def test_used_grants_are_named_as_causes(real_log_dir: Path) -> None:
    use = read_recorded_use(real_log_dir)
    ten = set(use.alone[:10])
    removed = ten | set(use.unused)
    comparison = judge(use, real_log_dir / LOG, set(removed))
    requests = [
        ChangedRequest(
            each.recorded.question,
            each.after.allowed,
            each.figures.events,
            each.figures.last_ms,
        )
        for each in comparison.changes
    ]
    assert not any(each.after.allowed for each in comparison.changes)
    causes = ChangedAcls(removed, []).find_causes(requests)
    assert len(ten) == 10
    assert {each.acl for each in causes} == ten
    assert all(each.is_removed and each.events for each in causes)


def test_base_install_is_enough(real_log_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BASE_INSTALL, str(real_log_dir / LOG)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout.split()) == ("", ["13518", "4391"])
