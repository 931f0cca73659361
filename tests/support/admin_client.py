"""Short calls of confluent-kafka's admin client."""

from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from tests.support.daemon_process import DaemonProcess

SECONDS_MAX = 20.0


def new_admin(daemon: DaemonProcess, listener: str = "PLAINTEXT", **settings: str) -> AdminClient:
    """Return a client of a listener; the keyword ``a_b`` sets ``a.b``."""
    more = {key.replace("_", "."): value for key, value in settings.items()}
    return AdminClient({"bootstrap.servers": daemon.ready["listeners"][listener], **more})


def binding(
    name: str = "orders",
    *,
    pattern_type: ResourcePatternType = ResourcePatternType.LITERAL,
    principal: str = "User:alice",
    operation: AclOperation = AclOperation.READ,
    resource_type: ResourceType = ResourceType.TOPIC,
) -> AclBinding:
    """Return an ALLOW binding for every host."""
    return AclBinding(
        resource_type, name, pattern_type, principal, "*", operation, AclPermissionType.ALLOW
    )


def filter_of(
    name: str | None, pattern_type: ResourcePatternType = ResourcePatternType.LITERAL
) -> AclBindingFilter:
    """Return a filter for the topic ``name``, or for every resource if it is None."""
    open_name: Any = name  # the client's annotations do not allow None, but the client does
    nobody: Any = None
    return AclBindingFilter(
        ResourceType.ANY if name is None else ResourceType.TOPIC,
        open_name,
        pattern_type,
        nobody,
        nobody,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


ANYTHING = filter_of(None, ResourcePatternType.ANY)


def result_of(future: Future[Any]) -> Any:  # noqa: ANN401 - what a future holds
    """Return a future's value, or its error as code and text."""
    try:
        return future.result(timeout=SECONDS_MAX)
    except KafkaException as error:
        return error.args[0].code(), error.args[0].str()


def create_acls(admin: AdminClient, *bindings: AclBinding) -> list[Any]:
    futures = admin.create_acls(list(bindings), request_timeout=SECONDS_MAX)
    return [result_of(futures[each]) for each in bindings]


def describe_acls(admin: AdminClient, wanted: AclBindingFilter = ANYTHING) -> set[AclBinding]:
    return set(admin.describe_acls(wanted, request_timeout=SECONDS_MAX).result(SECONDS_MAX))


def delete_acls(admin: AdminClient, wanted: AclBindingFilter = ANYTHING) -> Any:  # noqa: ANN401
    """Delete ACLs; return the deleted ones, or the error."""
    return result_of(admin.delete_acls([wanted], request_timeout=SECONDS_MAX)[wanted])


def alter_configs(admin: AdminClient, **changes: str | None) -> object:
    """Set keys of node 1, or delete them with None; return None or the error."""
    entries = [
        ConfigEntry(
            key.replace("_", "."),
            value or "",
            incremental_operation=AlterConfigOpType.SET if value else AlterConfigOpType.DELETE,
        )
        for key, value in changes.items()
    ]
    node = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=entries)
    (future,) = admin.incremental_alter_configs([node]).values()
    return result_of(future)
