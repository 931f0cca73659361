import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, Operation, ResourceType
from authorizerd.cli.acls.runner import format_by_principal
from authorizerd.management.formats.catalogue import FORMATS
from authorizerd.management.formats.listing import format_acls, read_listing
from authorizerd.management.formats.model import AclTextError, Loss
from tests.management.formats.faults import check_fault

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
    assert list(read_listing(ended.join(["", f"\t  {HEADING}", f" {ENTRY} ", "  ", ""]))) == [ACL]
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


OLD = """\
[2026-01-01 00:00:00,000] WARN x (a.B)
SLF4J: x
Current ACLs for resource `Group:LITERAL:g1`: 
 \tUser:u2 has Allow permission for operations: Read from hosts: *
\tUser:u has Allow permission for x has Deny permission for operations: AlterConfigs from hosts: 10.0.0.1 

Current ACLs for resource `TransactionalId:PREFIXED:t-`: 
        User:CN=a, O=b has Allow permission for operations: All from hosts: *
"""  # noqa: E501, W291 - as kafka-acls prints it


def test_listing_by_principal_manages_these_principals() -> None:
    text = format_by_principal([ACL], ["User:a", "User:b`"])
    scope = FORMATS["listing"].read(text).scope
    assert scope is not None
    assert scope.principals == {"User:a", "User:b`"}
    assert FORMATS["listing"].read(f"{HEADING}\n{ENTRY}\n").scope is None


def test_listing_before_kafka_2_4_is_read() -> None:
    assert list(read_listing(OLD)) == [
        Acl(3, "g1", 3, "User:u2", "*", 3, 3),
        Acl(3, "g1", 3, "User:u has Allow permission for x", "10.0.0.1", 11, 2),
        Acl(5, "t-", 4, "User:CN=a, O=b", "*", 2, 3),
    ]


def old(*headings: str) -> str:
    entry = "\tUser:a has Allow permission for operations: Read from hosts: *\n"
    return "".join(f"Current ACLs for resource `{each}`: \n{entry}" for each in headings)


def test_patterns_before_kafka_2_0_are_literal() -> None:
    text = old("Topic:a:b", "Cluster:kafka-cluster", "Topic:LITERAL:a")
    assert [(each.resource_type, each.resource_name) for each in read_listing(text)] == [
        (2, "a:b"), (4, "kafka-cluster"), (2, "a"),
    ]  # fmt: skip
    assert {each.pattern_type for each in read_listing(text)} == {3}


@pytest.mark.parametrize(("text", "place", "reason"), [
    (old("Group:LITERAL:a", "Topic:b"), "line 1", "ambiguous name"),
    (old("Topic:b", "Group:PREFIXED:a"), "line 3", "ambiguous name"),
    (old("Thing:b"), "line 1", "unknown ResourceType 'Thing'"),
    (old("Topic:b").replace("Read", "Peek"), "line 2", "unknown Operation 'Peek'"),
    (old("Topic:b").replace("Allow", "Any"), "line 2", "unknown PermissionType 'Any'"),
    (old("Topic:b").replace("User:a", "User has Deny permission for operations: All from hosts: "),
     "line 2", "ambiguous line"),
    (old("Topic:b").partition("\n")[2], "line 1", "before the first ACL"),
    (f"{ENTRY} x\n{HEADING}\n{ENTRY}\n", "line 1", "expected a line of a listing"),
    (f"{HEADING}x\n{HEADING}\n{ENTRY}\n", "line 1", "expected a line of a listing"),
    (f"{HEADING}\n{ENTRY}\nWARN x\n{ENTRY}\n", "line 3", "expected a line of a listing"),
    ("WARN x\nWARN y\n", "line 1", "expected a line of a listing of ACLs, found 'WARN x'"),
])  # fmt: skip
def test_old_or_mixed_line_that_is_ambiguous_is_an_error(
    text: str, place: str, reason: str
) -> None:
    check_fault(lambda given: [*read_listing(given)], text, place, reason)


def table(*rows: tuple[str, ...]) -> str:
    """Return a table as rpk aligns it."""
    all_rows = [RPK_COLUMNS, *rows]
    widths = [max(map(len, column)) + 2 for column in zip(*all_rows, strict=True)]
    return "".join(
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n"
        for row in all_rows
    )


RPK_COLUMNS = (
    "PRINCIPAL", "HOST", "RESOURCE-TYPE", "RESOURCE-NAME", "RESOURCE-PATTERN-TYPE", "OPERATION",
    "PERMISSION", "ERROR",
)  # fmt: skip
RPK_ROW = ("User:a  b", "*", "TRANSACTIONAL_ID", "ü t", "PREFIXED", "DESCRIBE_CONFIGS", "DENY", "")
RPK_ROLE = ("RedpandaRole:r", "10.0.0.1", "TOPIC", "*", "LITERAL", "READ", "ALLOW", "")


def test_table_of_rpk_is_read_by_its_columns() -> None:
    listed = table(RPK_ROW, RPK_ROLE)
    found = FORMATS["listing"].read("WARN x\n" + listed)
    filters = f"FILTERS\n=======\n{table(('', '', 'ANY', '', 'ANY', 'ANY', 'ANY', ''))}\n"
    assert FORMATS["listing"].read(f"{filters}MATCHES\n=======\n{listed}") == found
    role = Acl(2, "*", 3, "RedpandaRole:r", "10.0.0.1", 3, 3)
    assert found.acls == (Acl(5, "ü t", 4, "User:a  b", "*", 10, 2), role)
    assert found.losses == (Loss(role, "only Redpanda knows who has the role"),)


CSV_HEADING = "Principal,ResourceType, PatternType, ResourceName,Operation,PermissionType,Host\n"


def test_csv_of_each_tool_is_read() -> None:
    text = CSV_HEADING + '"User:CN=a,OU=b",TOPIC,LITERAL,orders,READ,ALLOW,*\r\n\n'
    assert FORMATS["csv"].read(text).acls == (Acl(2, "orders", 3, "User:CN=a,OU=b", "*", 3, 3),)
    text = (
        "KafkaPrincipal,ResourceType,ResourceName,PatternType,Operation,PermissionType,Host\n"
        "User:b,TransactionalId,x y,PREFIXED,DescribeConfigs,Deny,10.0.0.1"
    )
    literal = text.replace("PatternType,", "").replace("PREFIXED,", "")
    assert FORMATS["csv"].read(literal).acls == (Acl(5, "x y", 3, "User:b", "10.0.0.1", 10, 2),)
    assert FORMATS["csv"].read(text).acls == (Acl(5, "x y", 4, "User:b", "10.0.0.1", 10, 2),)


@pytest.mark.parametrize(("text", "place", "reason"), [
    (table(RPK_ROW).replace("OPERATION", "ACTION   "), "line 1", "expected the columns PRINCIPAL"),
    (table((*RPK_ROW[:7], "no answer")), "line 2", "rpk has reported an error: 'no answer'"),
    (table(RPK_ROW).replace("User:a  b  ", "User:aaaaaaa"), "line 2", "a blank before the column"),
    (table((*RPK_ROW[:2], "SUBJECT", *RPK_ROW[3:])), "line 2", "unknown ResourceType 'SUBJECT'"),
    (table(("", *RPK_ROW[1:])), "line 2", "colon"),
    (table(RPK_ROW) + "MATCHES\n" + table(RPK_ROW), "line 3", "ResourceType ''"),
])  # fmt: skip
def test_malformed_table_of_rpk_is_an_error(text: str, place: str, reason: str) -> None:
    check_fault(FORMATS["listing"].read, text, place, reason)


@pytest.mark.parametrize(("text", "place", "reason"), [
    ("User:a,TOPIC,LITERAL,t,READ,ALLOW,*\n", "line 1", "expected the columns Principal, Resource"),
    (CSV_HEADING.replace("Host", "Host,Host"), "line 1", "expected the columns"),
    (f"{CSV_HEADING}User:a,TOPIC,LITERAL,t,READ,ALLOW\n", "line 2", "expected 7 values, found 6"),
    (f"{CSV_HEADING}User:a,TOPIC,LITERAL, t,READ,ALLOW,*\n", "line 2", "no blanks around Resource"),
    (f"{CSV_HEADING}User:a,TOPIC,LITERAL,t,PEEK,ALLOW,*\n", "line 2", "unknown Operation 'PEEK'"),
    (f"{CSV_HEADING}\n\"User:a,TOPIC\n", "line 3", "not CSV"),
    (f"{CSV_HEADING}a,TOPIC,LITERAL,t,READ,ALLOW,*\n", "line 2", "colon"),
])  # fmt: skip
def test_malformed_csv_is_an_error(text: str, place: str, reason: str) -> None:
    check_fault(FORMATS["csv"].read, text, place, reason)
