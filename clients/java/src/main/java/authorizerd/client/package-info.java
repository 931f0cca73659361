/**
 * Ask authorizerd over its decision stream whether a Kafka principal may do something.
 *
 * <p><b>Invariant:</b> no failure looks like a permission. A call returns true only if a daemon
 * allowed the question. If there is no decision, it throws an {@link
 * authorizerd.client.AuthorizerdException}, or its future completes with one: deny then.
 *
 * <p>No parameter may be null unless its description permits it; a forbidden null throws a {@link
 * java.lang.NullPointerException} at once.
 */
package authorizerd.client;
