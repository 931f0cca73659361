"""AuthZEN's searches: read a search from JSON, and write its results as JSON.

**Invariant:** as for evaluations, a missing or ill-typed field is an error that names it, and
unknown fields are ignored. The id of the searched entity is such a field. An unknown type or
operation is not an error: nothing is found, and the context says why.

Source: OpenID AuthZEN Authorization API 1.0, section 8 (Search APIs); the certification scenario,
section 4.6 (Empty results).
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from authorizerd.acl.model import Operation
from authorizerd.acl.search.hosts import HostAccess
from authorizerd.protocol.decisions.authzen import (
    Action,
    AuthZenError,
    Context,
    Resource,
    Subject,
    SubjectProperties,
    Vocabulary,
    find_operation,
    find_resource_type,
    find_subject_type,
    host_of,
)
from authorizerd.protocol.decisions.hosts import Hosts
from authorizerd.protocol.decisions.json_keys import JsonKeysError, check_keys
from authorizerd.protocol.decisions.past_answers import AsOfAnswer
from authorizerd.protocol.json_faults import JSON_ERRORS, describe_json_fault

PAGE_LIMIT_MAX: Final = 1000
"""The maximum number of results of a page, and the default."""
SHOWN_EXCEPTIONS_MAX: Final = 100
"""The maximum number of exceptions that a result or a context lists."""


class SearchedSubject(msgspec.Struct, gc=False):
    """The type of the principals that are searched for."""

    type: str
    properties: SubjectProperties | None = None


class SearchedResource(msgspec.Struct, gc=False):
    """The type of the resources that are searched for."""

    type: str


class PageRequest(msgspec.Struct, gc=False):
    """The requested part of the results."""

    token: str | None = None
    # The standard permits 0, but that would give empty pages without end. It also permits any large
    # number, and fewer results than the limit.
    limit: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class SubjectSearch(msgspec.Struct, gc=False):
    """Who may do this to a resource?"""

    subject: SearchedSubject
    action: Action
    resource: Resource
    context: Context | None = None
    page: PageRequest | None = None


class ResourceSearch(msgspec.Struct, gc=False):
    """To which resources may the subject do this?"""

    subject: Subject
    action: Action
    resource: SearchedResource
    context: Context | None = None
    page: PageRequest | None = None


class ActionSearch(msgspec.Struct, gc=False):
    """What may the subject do to a resource?"""

    subject: Subject
    resource: Resource
    context: Context | None = None
    page: PageRequest | None = None


Search: TypeAlias = SubjectSearch | ResourceSearch | ActionSearch


class HostProperties(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The hosts from which a result is allowed, if ``context.list_hosts`` asks for them.

    ``super_user`` is True for a super user, whom no ACL can deny.
    """

    hosts: Hosts
    super_user: bool = False


class FoundSubject(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A principal."""

    type: str
    id: str
    properties: HostProperties | None = None


class PatternProperties(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The meaning of a result that stands for many resources.

    ``exceptions`` are patterns inside this one to which it does not apply, and
    ``exceptions_left_out`` is how many more there are. With ``context.list_hosts``, every result is
    a pattern, even for a single name, and has its ``hosts``.
    """

    pattern_type: str
    exceptions: tuple[PatternException, ...] = ()
    exceptions_left_out: int = 0
    hosts: Hosts | None = None


class PatternException(msgspec.Struct, frozen=True, gc=False):
    """A pattern of resources."""

    pattern_type: str
    id: str


class FoundResource(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A resource; with ``properties``, all resources that a pattern matches."""

    type: str
    id: str
    properties: PatternProperties | None = None


class FoundAction(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An operation, in lower case."""

    name: str
    properties: HostProperties | None = None


Found: TypeAlias = FoundSubject | FoundResource | FoundAction


class SearchContext(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Facts that the results alone do not show.

    Attributes:
        offset: the log offset of the ACLs that were searched.
        as_of: the earlier moment that the search asked about. Names of topics are the current ones.
        reason: why nothing can be found.
        everyone: of subjects: every principal that is not listed may do it, except those in
            ``everyone_except``; ``everyone_except_left_out`` is how many more there are.
        everyone_hosts: of subjects, with ``list_hosts``: the hosts from which all other principals
            may do it. Other principals are those neither listed nor in ``everyone_except``, which
            is then complete.
        other_types: of subjects, with ``list_hosts``: how many principals of other types, which
            this page leaves out, may also do it.
        everything: of resources: the subject is a super user, who may do everything.
        unlisted: of resources: names that no ACL matches are allowed, because
            allow.everyone.if.no.acl.found is set.
        patterns_left_out: of resources: how many patterns are left out, because the pattern's own
            name is not allowed.
        some_hosts: of subjects and actions, without a host: how many this page leaves out because
            they are allowed only from some hosts. Ask again with ``context.host`` to see what is
            allowed from that host.
        everyone_some_hosts: of subjects, without a host: every principal that no ACL names may do
            it, but from some hosts only.
        hosts_matter: of resources, without a host: ACLs of the subject or of everyone name single
            hosts for this resource type, so resources that are allowed from some hosts only may be
            left out. Ask again with ``context.host``.
        releases: the Kafka releases that may be in force, if it is unknown which one is and this
            may matter. The results are what at least one of them allows. A decision allows only
            what all of them allow.

    With ``list_hosts``, nothing is left out because of hosts.
    """

    offset: int
    as_of: AsOfAnswer | None = None
    reason: str | None = None
    everyone: bool = False
    everyone_except: tuple[str, ...] = ()
    everyone_except_left_out: int = 0
    everyone_hosts: Hosts | None = None
    other_types: int = 0
    everything: bool = False
    unlisted: bool = False
    patterns_left_out: int = 0
    some_hosts: int = 0
    everyone_some_hosts: bool = False
    hosts_matter: bool = False
    releases: tuple[str, ...] = ()


class Page(msgspec.Struct, frozen=True, gc=False):
    """``next_token`` is empty at the end of the results."""

    next_token: str
    count: int


class _SearchAnswer(msgspec.Struct, frozen=True, gc=False):
    """A page of results."""

    # It comes first, as the standard recommends.
    page: Page
    context: SearchContext
    results: tuple[Found, ...]


_encode: Final = msgspec.json.Encoder().encode


def decode_search(body: bytes, kind: type[Search]) -> Search:
    """Return the search in a JSON text.

    Raises:
        AuthZenError: it is not JSON, a field is missing or has the wrong type, or an object names a
            key twice.
    """
    try:
        search: Search = msgspec.json.decode(body, type=kind)
        # Decode before this check: the decoder's errors name the field.
        check_keys(body)
    except JSON_ERRORS as error:
        raise AuthZenError(describe_json_fault(error)) from None
    except JsonKeysError as error:
        raise AuthZenError(str(error)) from None
    return search


class Query(msgspec.Struct, frozen=True, gc=False):
    """A search in Kafka's terms.

    Attributes:
        subject_type, resource_type_name: the types as they are written in the request.
        principal_type: Kafka's type.
        principal: None in a search for subjects.
        operation: None in a search for actions.
        resource_name: None in a search for resources.
        list_hosts: True to also list what is allowed only from some hosts, with these hosts.
    """

    subject_type: str
    principal_type: str
    principal: str | None
    host: str | None
    operation: int | None
    resource_type_name: str
    resource_type: int
    resource_name: str | None
    list_hosts: bool

    def is_listed(self, access: HostAccess) -> bool:
        """Return True if something allowed from these hosts counts as a result."""
        return access.may_allow(self.host) if self.list_hosts else access.allows(self.host)


def build_query(search: Search, vocabulary: Vocabulary) -> Query:
    """Return a search in Kafka's terms.

    Raises:
        UnknownNameError: a type or the operation is unknown.
        AuthZenError: the host is not an IP address.
    """
    subject, resource = search.subject, search.resource
    # Check this first, since an unknown name must not hide an invalid field.
    host = host_of(subject.properties, search.context)
    principal_type = find_subject_type(subject.type, vocabulary)
    operation = None
    if not isinstance(search, ActionSearch):
        operation = find_operation(search.action.name, vocabulary)
    return Query(
        subject.type,
        principal_type,
        f"{principal_type}:{subject.id}" if isinstance(subject, Subject) else None,
        host,
        operation,
        resource.type,
        find_resource_type(resource.type, vocabulary),
        resource.id if isinstance(resource, Resource) else None,
        search.context is not None and search.context.list_hosts,
    )


def name_action(operation: int) -> str:
    """Return the name under which an operation is a result."""
    return Operation(operation).name.lower()


def encode_search_answer(
    results: tuple[Found, ...], context: SearchContext, next_token: str = ""
) -> bytes:
    """Return the JSON of a page of results."""
    return _encode(_SearchAnswer(Page(next_token, len(results)), context, results))
