package authorizerd.client;

/** The client was closed before or during the question. */
public final class ClosedException extends AuthorizerdException {
    private static final long serialVersionUID = 1;

    ClosedException(String message) {
        this(message, null);
    }

    ClosedException(String message, Throwable cause) {
        super(message, cause);
    }

    @Override
    AuthorizerdException copy() {
        return new ClosedException(getMessage(), this);
    }
}
