"""Each format reads back all that it writes: all ACLs except those that it names as losses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl
from authorizerd.management.formats.catalogue import FORMATS, detect_format
from authorizerd.management.formats.listing import read_listing
from authorizerd.management.formats.model import AclsWritten
from tests.support.strategies import acls, any_acls

NAMES = st.one_of(
    st.text("ab-._*!:/ ,'\"#=\\{}[]%$&\n\t\0\x85\u2028\ufeffü😀", max_size=5),
    st.sampled_from((
        "null", "Yes", "~", "12", "1_0", "0x1", "1:30", "2026-01-01", "<<", "=", "---", "- a",
        "a: b", ".inf", "${a}", "%{a}", "kafka-cluster", "CN=a, O=b", "ANONYMOUS", ", host=*",
        "b)`: ",
    )),
)  # fmt: skip
creatable = st.builds(
    Acl,
    st.integers(2, 7),
    NAMES,
    st.sampled_from((3, 4)),
    NAMES.map("User:".__add__)
    | st.sampled_from(("Group:a", "User:*", "User:", "User:CN=a"))
    | NAMES,
    st.sampled_from(("*", "10.0.0.1", "0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1%eth0", "")) | NAMES,
    st.integers(2, 15),
    st.sampled_from((2, 3)),
)
"""ACLs whose names could be misread; most of them, Kafka can create."""

SUFFIXES = {
    "json": ".json", "json-lines": ".jsonl", "listing": ".txt", "terraform": ".json",
    "zookeeper": ".jsonl",
}  # fmt: skip


def check_round_trip(name: str, some: list[Acl]) -> AclsWritten:
    """Check that the text and the losses together are exactly ``some``."""
    written = FORMATS[name].write(some)
    lost = [loss.acl for loss in written.losses]
    kept = FORMATS[name].read(written.text)
    assert Counter([*kept.acls, *lost]) == Counter(set(some))
    assert kept.losses == ()
    assert FORMATS[name].write(some[::-1]).text == written.text
    assert kept.scope is None or all(map(kept.scope.includes, kept.acls))
    if kept.acls:
        assert detect_format(written.text, SUFFIXES.get(name, ".yaml")).name == name
        assert detect_format(written.text, "").name == name
    return written


@pytest.mark.parametrize("name", FORMATS)
@given(some=st.lists(acls(unknown_codes=True) | any_acls | creatable, max_size=8))
def test_written_text_reads_back_except_for_named_losses(name: str, some: list[Acl]) -> None:
    check_round_trip(name, some)


@pytest.mark.parametrize(("name", "lost"), [
    ("yaml", 0), ("json", 0), ("json-lines", 0), ("listing", 0), ("zookeeper", 0), ("strimzi", 245),
    ("kafka-gitops", 0), ("terraform", 0),
    ("julie", 126),
])  # fmt: skip
def test_1751_acls_of_a_real_broker_read_back(name: str, lost: int, real_log_dir: Path) -> None:
    some = list(read_listing((real_log_dir / "acls-list.txt").read_text(encoding="utf-8")))
    assert len(some) == 1751
    assert len(check_round_trip(name, some).losses) == lost
