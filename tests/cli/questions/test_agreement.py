"""What ``what-can`` says of known topics is what every single decision says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import authorize
from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.model import Acl, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.cli.acl_source import AclSource, Place
from authorizerd.cli.questions.what_can import find_entries
from tests.support.acls import snapshot_of
from tests.support.strategies import acls, resource_names

TOPIC = ResourceType.TOPIC
HOSTS = ("10.0.0.1", "10.0.0.7", "10.0.0.8")
SETTINGS = st.builds(KnownSettings, st.just(frozenset({"User:root"})), st.booleans())


@given(
    st.frozensets(acls(), max_size=8),
    st.frozensets(resource_names, max_size=6),
    SETTINGS,
    st.sampled_from(("User:a", "User:nobody", "User:root")),
    st.sampled_from(HOSTS),
)
def test_known_topics_are_those_of_which_something_is_allowed(
    held: frozenset[Acl],
    names: frozenset[str],
    settings: KnownSettings,
    principal: str,
    host: str,
) -> None:
    """The name ``*`` is left out, because no topic has it."""
    topics = tuple(sorted(names - {"*"}))
    snapshot = snapshot_of(*held)
    source = AclSource(
        snapshot=snapshot,
        settings=settings,
        stated=(),
        topics=topics,
        place=Place.LOG,
        name="log",
        offset=0,
    )
    listed = {
        (operation, topic)
        for entry in find_entries(source, principal, host, {TOPIC: SUPPORTED[TOPIC]})
        for operation in entry.operations
        for topic in entry.topics
    }
    assert listed == {
        (operation, topic)
        for operation in SUPPORTED[TOPIC]
        for topic in topics
        if authorize(snapshot, settings.least, principal, host, operation, TOPIC, topic)
    }
