package authorizerd.client;

import java.time.Duration;

/** The daemon has more work, connections or data than its limits allow. */
public final class OverloadedException extends AnswerException {
    private static final long serialVersionUID = 1;

    /** How long to wait at least before asking again. */
    private final Duration retryAfter;

    OverloadedException(String message, int code, Duration retryAfter) {
        super(message, code);
        this.retryAfter = retryAfter;
    }

    private OverloadedException(OverloadedException cause) {
        super(cause.getMessage(), cause.code(), cause);
        retryAfter = cause.retryAfter;
    }

    /**
     * Return how long to wait at least before asking again.
     *
     * @return 100 ms for one refused frame, one second if no connection or memory was free
     */
    public Duration retryAfter() {
        return retryAfter;
    }

    @Override
    AuthorizerdException copy() {
        return new OverloadedException(this);
    }
}
