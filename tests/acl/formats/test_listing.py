from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.formats.listing import format_acls, read_listing
from authorizerd.acl.formats.model import AclTextError
from authorizerd.acl.model import Acl, Operation, ResourceType
from authorizerd.cli.acls.output import format_by_principal

HEADING = (
    "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`: "
)
ENTRY = "\t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)"
ACL = Acl(2, "t", 3, "User:a", "*", 3, 3)

names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1, max_size=12
) | st.sampled_from(["a, name=b", "t, patternType=LITERAL)`:", "x)`: ", "\x85", "\u2028", "ü,ö"])
listable = st.builds(
    Acl,
    st.sampled_from([int(code) for code in ResourceType if code > 1]),
    names,
    st.sampled_from([3, 4]),
    # A principal with ", host=" is ambiguous in a listing; a row below expects the error.
    names.filter(lambda name: ", host=" not in name).map("User:".__add__)
    | st.just("User:a, operation=READ, permissionType=DENY)"),
    st.sampled_from(["*", "10.0.0.1", "0:0:0:0:0:0:0:1", "h, operation=ALL", ""]),
    st.sampled_from([int(code) for code in Operation if code > 1]),
    st.sampled_from([2, 3]),
)


@given(st.lists(listable, max_size=8, unique=True))
def test_listing_of_authorizerd_reads_back(acls: list[Acl]) -> None:
    assert set(read_listing(format_acls(acls))) == set(acls)


@given(st.lists(listable, max_size=8, unique=True))
def test_listing_by_principal_reads_back(acls: list[Acl]) -> None:
    principals = [acl.principal for acl in acls]
    assert set(read_listing(format_by_principal(acls, principals))) == set(acls)


def test_listing_of_kafka_4_3_1_has_1751_acls(real_log_dir: Path) -> None:
    text = (real_log_dir / "acls-list.txt").read_text(encoding="utf-8")
    acls = list(read_listing(text))
    assert len(acls) == len(set(acls)) == 1751 == text.count("\t(principal=")


@pytest.mark.parametrize("ended", ["\n", "\r\n"])
def test_line_ends_and_blanks_of_other_versions_are_accepted(ended: str) -> None:
    text = ended.join(["", f"{HEADING}", f" {ENTRY} ", "  ", ""])
    assert list(read_listing(text)) == [ACL]
    assert list(read_listing("")) == []


@pytest.mark.parametrize(("line", "reason"), [
    ("Error: something", "expected a line of a listing"),
    (ENTRY[:-1], "expected a line of a listing"),
    (ENTRY.replace("READ", "Read"), "expected a line of a listing"),
    (ENTRY.replace("READ", "READS"), "unknown Operation 'READS'"),
    (ENTRY.replace("READ", "ANY"), "unknown Operation 'ANY'"),
    (ENTRY.replace("ALLOW", "PERMIT"), "unknown PermissionType 'PERMIT'"),
    (ENTRY.replace(", host=*", ""), "missing host"),
    (ENTRY.replace("*", "*, host=*"), "ambiguous line"),
    (HEADING.replace("TOPIC", "TOPICS"), "unknown ResourceType 'TOPICS'"),
    (HEADING.replace("LITERAL", "MATCH"), "unknown PatternType 'MATCH'"),
    ("x" * 10_000, "…'"),
])  # fmt: skip
def test_malformed_line_is_named_by_its_number(line: str, reason: str) -> None:
    with pytest.raises(AclTextError, match=reason) as refused:
        list(read_listing("\n".join([HEADING, ENTRY, "", line, ENTRY])))
    assert refused.value.place == "line 4"
    assert len(refused.value.reason) < 500


def test_acl_before_any_resource_is_rejected() -> None:
    for text in (ENTRY, f"{HEADING}\n{ENTRY}\nACLs for principal `User:b`\n{ENTRY}"):
        with pytest.raises(AclTextError, match="expected a resource before"):
            list(read_listing(text))


def test_code_from_a_newer_version_reads_as_unknown() -> None:
    text = f"{HEADING}\n{ENTRY.replace('READ', 'UNKNOWN')}"
    assert [acl.operation for acl in read_listing(text)] == [Operation.UNKNOWN]


@given(st.text("(),=`:ACLsforpincuhte\n\t *", max_size=80))
def test_any_text_gives_acls_or_a_listing_error(text: str) -> None:
    with contextlib.suppress(AclTextError):
        list(read_listing(f"{HEADING}\n{text}"))
