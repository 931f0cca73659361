"""What the class of a message declares about its bytes.

A message is one class with the fields of all versions, in the order of the wire. The annotation of
a field gives its type: one of ``wire_types``, another class, or an array of either. ``Only`` in it
says which versions have the field. A field that a version lacks is read as its default, and is not
written.

Source: Kafka's message definitions (``FetchRequest.json`` and others).
"""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from authorizerd.protocol.kafka.arrays import ReadMany
from authorizerd.protocol.kafka.wire_types import CustomType

NO_DEFAULT: Final = msgspec.NODEFAULT

NEVER: Final = 0x7FFF
"""Above every version."""


class Only(NamedTuple):
    """How a field depends on the version, and its number if it is a tagged field.

    ``absent`` is its value in versions without it, by default that of a new message.
    """

    since: int = 0
    until: int = NEVER
    nullable_since: int = 0
    tag: int | None = None
    absent: object = NO_DEFAULT


class FieldType(NamedTuple):
    """The type of a field: the name of one of ``wire_types``, a type of its own, or a structure."""

    item: str | CustomType | type
    is_array: bool = False
    is_nullable: bool = False
    read_many: ReadMany | None = None


class Field(NamedTuple):
    """A declared field. ``default`` is its value in versions without it."""

    name: str
    type: FieldType
    only: Only
    default: object


@cache
def fields_of(structure: type) -> tuple[Field, ...]:
    """Return the declared fields of all versions, in the order of the wire."""
    hints = get_type_hints(structure, include_extras=True)
    defaults = {each.name: each.default for each in msgspec.structs.fields(structure)}
    fields = []
    for name, hint in hints.items():
        field_type, only = _parse(hint)
        default = defaults[name] if only.absent is NO_DEFAULT else only.absent
        fields.append(Field(name, field_type, only, default))
    return tuple(fields)


def _parse(hint: Any) -> tuple[FieldType, Only]:  # noqa: ANN401 - any annotation
    """Return the type that an annotation gives, and on which versions it depends."""
    if get_origin(hint) is Annotated:
        marks = hint.__metadata__
        only = next((each for each in marks if isinstance(each, Only)), Only())
        own = [each for each in marks if not isinstance(each, Only)]
        if own and not callable(own[-1]):
            return FieldType(own[-1], is_nullable=NoneType in get_args(hint.__origin__)), only
        return _parse(hint.__origin__)[0]._replace(read_many=own[-1] if own else None), only
    if get_origin(hint) in (UnionType, Union):
        [hint] = [each for each in get_args(hint) if each is not NoneType]
        return _parse(hint)[0]._replace(is_nullable=True), Only()
    if get_args(hint):  # a generic type has the type of its items
        item = _parse(get_args(hint)[0])[0]
        return item._replace(is_array=True, is_nullable=False), Only()
    return FieldType(hint), Only()
