package authorizerd.client;

/** The answer did not arrive within the client's time limit. */
public final class TimedOutException extends AuthorizerdException {
    private static final long serialVersionUID = 1;

    TimedOutException(String message) {
        this(message, null);
    }

    TimedOutException(String message, Throwable cause) {
        super(message, cause);
    }

    @Override
    AuthorizerdException copy() {
        return new TimedOutException(getMessage(), this);
    }
}
