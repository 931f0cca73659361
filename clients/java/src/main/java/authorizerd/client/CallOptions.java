package authorizerd.client;

import java.time.Duration;

/**
 * What one call wants other than the client's defaults.
 *
 * @param minOffset answer by ACLs that include this log offset; -1 for any
 * @param timeout replaces the client's time limit; null keeps it
 */
public record CallOptions(long minOffset, Duration timeout) {
    /** The client's defaults. */
    public static final CallOptions NONE = new CallOptions(-1, null);

    /**
     * Reject a negative time limit.
     *
     * @param minOffset a log offset, or -1
     * @param timeout of the whole call, or null
     */
    public CallOptions {
        if (timeout != null && timeout.isNegative()) {
            throw new IllegalArgumentException("expected a timeout of at least 0, found " + timeout);
        }
    }

    /**
     * Require a log offset.
     *
     * @param minOffset the log offset that the ACLs must include
     * @return these options with this offset
     */
    public CallOptions withMinOffset(long minOffset) {
        return new CallOptions(minOffset, timeout);
    }

    /**
     * Set the time limit.
     *
     * @param timeout of the whole call, including connecting; null for the client's
     * @return these options with this time limit
     */
    public CallOptions withTimeout(Duration timeout) {
        return new CallOptions(minOffset, timeout);
    }
}
