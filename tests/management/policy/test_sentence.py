"""Sentences, what they mean, and the classes of names that they are judged by."""

import contextlib
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import PatternType, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.patterns import matches
from authorizerd.management.policy.name_classes import divide
from authorizerd.management.policy.sentence import EXAMPLES, SentenceError, read_sentence
from authorizerd.management.policy.wording import write_assertion
from authorizerd.management.policy.words import Assertion, AtMost, Each, Everyone, Names
from tests.management.policy.assertions import assertion, prefix

GROUPS = {"admins": ("User:admin", "User:root")}
ALICE = Each(("User:alice",))
BOTH = Each(("User:alice", "User:bob"))
NOBODY = AtMost(0)
ANY = prefix("")


@pytest.mark.parametrize(("sentence", "expected"), [
    ("alice may READ topic orders", assertion(ALICE, "READ", "orders")),
    ("User:alice can read the topic orders", assertion(ALICE, "READ", "orders")),
    ("alice may READ orders-7", assertion(ALICE, "READ", "orders-7")),
    ("alice may READ topic orders from 10.0.0.7",
     assertion(ALICE, "READ", "orders", hosts=("10.0.0.7",))),
    ("alice may READ topic orders from 10.0.0.7, ::1 and 10.0.0.8",
     assertion(ALICE, "READ", "orders", hosts=("10.0.0.7", "0:0:0:0:0:0:0:1", "10.0.0.8"))),
    ("alice may READ topic orders from any host", assertion(ALICE, "READ", "orders")),
    ("alice and bob may READ or describe-configs topics orders, payments.*",
     assertion(BOTH, "READ DESCRIBE_CONFIGS", "orders", prefix("payments."))),
    ("User:bob may not WRITE any topic", assertion("User:bob", "WRITE", ANY, allowed=False)),
    ("bob cannot WRITE every topic", assertion("User:bob", "WRITE", ANY, allowed=False)),
    ("bob can not WRITE all topics", assertion("User:bob", "WRITE", ANY, allowed=False)),
    ("bob may READ groups *", assertion("User:bob", "READ", ANY, type="GROUP")),
    ("nobody but User:admin may ALTER the cluster",
     assertion(AtMost(0, ("User:admin",)), "ALTER", "kafka-cluster", type="CLUSTER")),
    ("nobody but $admins and $super_users may ALTER cluster",
     assertion(AtMost(0, GROUPS["admins"], besides_super_users=True), "ALTER", "kafka-cluster",
               type="CLUSTER")),
    ("only User:a, User:b may READ topics beginning with secret-",
     assertion(AtMost(0, ("User:a", "User:b")), "READ", prefix("secret-"))),
    ("nobody may READ any group starting with a or b",
     assertion(NOBODY, "READ", prefix("a"), prefix("b"), type="GROUP")),
    ("at most 3 principals can WRITE payments.*",
     assertion(AtMost(3), "WRITE", prefix("payments."))),
    ("nobody except alice may READ topic t", assertion(AtMost(0, ("User:alice",)), "READ", "t")),
    ("at most 1 principal but alice can WRITE payments.*",
     assertion(AtMost(1, ("User:alice",)), "WRITE", prefix("payments."))),
    ("everyone may READ topic public", assertion(Everyone(), "READ", "public")),
    ("alice may ALL topic t",
     assertion(ALICE, " ".join(op.name for op in SUPPORTED[ResourceType.TOPIC]), "t")),
    ("alice may WRITE transactional_id t-1",
     assertion(ALICE, "WRITE", "t-1", type="TRANSACTIONAL_ID")),
    ('"User:CN=a, OU=b" may READ topics "a b", "x*", "y z"*, \'it\'\'s\'',
     assertion("User:CN=a, OU=b", "READ", "a b", "x*", prefix("y z"), "it's")),
    ('alice may READ topic "topic"', assertion(ALICE, "READ", "topic")),
    ('"nobody" may READ topic t', assertion("User:nobody", "READ", "t")),
    ('"$admins" may READ topic t', assertion("User:$admins", "READ", "t")),
    ("  alice   may READ\ttopic\n orders ", assertion(ALICE, "READ", "orders")),
    ("User:alice may READ topic t from 10.0.0.7 and 10.0.0.7",
     assertion(ALICE, "READ", "t", hosts=("10.0.0.7",))),
])  # fmt: skip
def test_sentence_means(sentence: str, expected: Assertion) -> None:
    assert read_sentence(sentence, GROUPS) == expected


@pytest.mark.parametrize(("sentence", "place", "reason"), [
    ("", 0, "expected a principal, found the end of the sentence"),
    ("alice", 5, "expected 'may' or 'can', found the end of the sentence"),
    ("alice my READ t", 6, "expected 'may' or 'can', found 'my' (did you mean may?)"),
    ("alice may", 9, "expected an operation, found the end of the sentence"),
    ("alice may RAED t", 10, "unknown operation 'RAED' (did you mean READ?)"),
    ("alice may READ,", 15, "expected an operation, found the end"),
    ("alice may READ", 14, "expected a name, found the end of the sentence"),
    ("alice may READ topics", 21, "expected a name, found the end of the sentence"),
    ("alice may READ topic from", 21, "expected a name, found 'from'"),
    ("alice may READ topc orders", 15, "found 'topc' (did you mean topic?)"),
    ("alice may READ orders", 15, "expected a resource type (topic, group, transactional-id, "
     "delegation-token, user-principal, cluster), such as 'topic orders', found 'orders'"),
    ("alice may READ from topic t", 15, "expected a name, found 'from'"),
    ("bob may not WRITE anything", 18, "expected a resource type"),
    ("alice may READ any orders", 19, "expected a resource type (topic, group"),
    ("alice may READ the orders", 19, "expected a resource type (topic, group"),
    ("alice may READ 7 form 1.1.1.1", 17, "expected 'from' or the end of the sentence, found "
     "'form' (did you mean from?)"),
    ("alice may READ 7 from 10.0.0.0/8", 22, "expected an IP address, found '10.0.0.0/8'"),
    ("alice may READ 7 from here", 22, "expected an IP address, found 'here'"),
    ("alice may READ 7 from 1.1.1.1 now", 30, "expected the end of the sentence, found 'now'"),
    ("alice may ALTER group g", 10, "ALTER does not apply to GROUP: expected one of READ"),
    ("alice may READ the cluster", 10, "READ does not apply to CLUSTER"),
    ("alice may READ t*x", 15, "expected '*' only at the end, found 't*x'"),
    ("alice may READ topics beginning with t*", 37, "beginning of names without '*'"),
    ("alice may READ topics beginning t", 32, "expected 'with', found 't'"),
    ("User:* may READ t", 0, "User:* is not one principal: write 'everyone'"),
    ("* may READ t", 0, "User:* is not one principal: write 'everyone'"),
    ("team-* may READ t", 0, "principals have no patterns"),
    ("user:alice may READ t", 0, "did you mean User:alice?"),
    ("User:CN=a,O=b may READ t", 10, "'O=b' may be a part of a distinguished name: put"),
    ("only User:a, CN=b, O=c may READ t", 13, "'CN=b' may be a part of a distinguished name"),
    ("alice may DESCRIBE_TOKENS user-principal User:CN=a,O=b", 51,
     "'O=b' may be a part of a distinguished name: put the whole principal into quotes"),
    (":alice may READ t", 0, "expected a principal, Type:name or a user's name"),
    ("$admin may READ t", 0, "unknown group '$admin' (did you mean $admins?)"),
    ("$super_users may READ t", 0, "expected $super_users only after 'but' or 'only'"),
    ("everyone may not READ t", 9, "write 'nobody may'"),
    ("nobody cannot READ t", 7, "write 'nobody may'"),
    ("at most three principals may READ t", 8, "expected a number from 0 to"),
    ("at most 1_000 principals may READ t", 8, "expected a number from 0 to"),
    ("at most 9999999999 principals may READ t", 8, "expected a number from 0 to"),
    ("at most ٣ principals may READ t", 8, "expected a number from 0 to"),
    ("at least 3 principals may READ t", 3, "expected 'most', found 'least'"),
    ("at most 3 users may READ t", 10, "expected 'principals' or 'principal', found 'users'"),
    ('alice may READ topic "orders', 21, "expected a closing quote"),
    ('alice may READ topic "orders"x', 21, "expected a closing quote"),
    ('alice may READ topic ""', 21, "expected a name, found an empty text"),
    ('"alice"* may READ t', 0, "only names have patterns"),
    ("alice, may READ t", 7, "expected a principal, found 'may'"),
])  # fmt: skip
def test_unreadable_sentence_shows_the_place(sentence: str, place: int, reason: str) -> None:
    with pytest.raises(SentenceError) as raised:
        read_sentence(sentence, GROUPS)
    assert reason in raised.value.reason
    assert raised.value.start == place
    assert place < raised.value.end


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_of_the_errors_can_be_read(example: str) -> None:
    read_sentence(example, {})


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6) | st.sampled_from(
    ["topic", "nobody", "a b", "it's", '"', "x*", "*", "a,b", "$admins", "and", "'"]
)
principals = texts.filter(lambda text: not text.endswith("*")).map("User:".__add__)
some_principals = st.lists(principals, min_size=1, max_size=3, unique=True).map(tuple)
regions = st.builds(Names, texts) | st.builds(Names, texts | st.just(""), st.just(True))


@st.composite
def assertions(draw: st.DrawFn) -> Assertion:
    resource_type = draw(st.sampled_from(list(SUPPORTED)))
    supported = st.sampled_from([int(each) for each in SUPPORTED[resource_type]])
    who = draw(
        st.one_of(
            st.builds(Each, some_principals),
            st.just(Everyone()),
            st.builds(AtMost, st.integers(0, 9), some_principals | st.just(()), st.booleans()),
        )
    )
    names = st.lists(regions, min_size=1, max_size=3, unique=True).map(tuple)
    if resource_type is ResourceType.CLUSTER:
        names = st.just((Names("kafka-cluster"),))
    return Assertion(
        who=who,
        is_allowed=draw(st.booleans()) if isinstance(who, Each) else True,
        operations=tuple(draw(st.lists(supported, min_size=1, max_size=9, unique=True))),
        resource_type=resource_type,
        names=draw(names),
        hosts=draw(st.sampled_from([(), ("10.0.0.7",), ("10.0.0.7", "0:0:0:0:0:0:0:1")])),
    )


@given(assertions())
def test_written_assertion_reads_back(asserted: Assertion) -> None:
    assert read_sentence(write_assertion(asserted), {"admins": ()}) == asserted


@given(st.text(max_size=40))
def test_any_text_is_an_assertion_or_an_error(text: str) -> None:
    with contextlib.suppress(SentenceError):
        read_sentence(text, {})


short_texts = st.text("ab*", max_size=3)
patterns = st.tuples(
    st.sampled_from((int(PatternType.LITERAL), int(PatternType.PREFIXED))), short_texts
)
ALL_NAMES = ["".join(some) for size in (1, 2, 3, 4) for some in product("ab*z", repeat=size)]


@given(st.lists(patterns, max_size=8), short_texts)
def test_every_name_is_matched_like_some_example(some: list[tuple[int, str]], text: str) -> None:
    """So a decision for the example is that for every name of its class."""

    def matching(name: str) -> list[bool]:
        return [matches(kind, pattern, name) for kind, pattern in (*some, (3, "*"))]

    classes = list(divide(Names(text, is_prefix=True), some))
    examples = [matching(each.example) for each in classes]
    for name in ALL_NAMES:
        if name.startswith(text):
            assert matching(name) in examples
    for each in classes:
        assert each.example.startswith(each.names.text)
        assert each.example.startswith(text)
        assert each.example
    assert len(set(classes)) == len(classes)


def test_one_name_is_one_class() -> None:
    (only,) = divide(Names("orders"), [(4, "ord"), (3, "orders")])
    assert only.names == Names("orders")
    assert only.example == "orders"


def test_example_is_no_name_of_a_longer_pattern() -> None:
    taken = [(3, f"t{letter}") for letter in "abcdefghijklmnopqrstuvwxyz0123456789"]
    first = next(divide(Names("t", is_prefix=True), taken))
    assert first.example not in {name for _, name in taken}
    assert first.example.startswith("t")
