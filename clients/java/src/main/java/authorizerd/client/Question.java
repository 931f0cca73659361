package authorizerd.client;

import java.util.Objects;

/**
 * May {@code principal} do {@code operation} to the resource?
 *
 * @param principal a type and a name, such as {@code User:alice}
 * @param host the IP address of the principal's connection, or null if it is unknown. With null,
 *     only ALLOW rules for every host apply, but all DENY rules do, even those for one host
 * @param operation Kafka's name in capitals, such as {@code READ}
 * @param resourceType Kafka's name in capitals, such as {@code TOPIC}
 * @param resourceName the literal name of one resource; not empty
 */
public record Question(
        String principal, String host, String operation, String resourceType, String resourceName) {
    /**
     * Reject null in every field but {@code host}. The daemon judges the values.
     *
     * @param principal a type and a name
     * @param host an IP address, or null
     * @param operation Kafka's name in capitals
     * @param resourceType Kafka's name in capitals
     * @param resourceName a literal name
     */
    public Question {
        Objects.requireNonNull(principal, "principal");
        Objects.requireNonNull(operation, "operation");
        Objects.requireNonNull(resourceType, "resourceType");
        Objects.requireNonNull(resourceName, "resourceName");
    }
}
