package authorizerd.client;

/**
 * The client holds as many calls, or as many bytes of them, as its options allow. Nothing was sent.
 */
public final class TooManyCallsException extends AuthorizerdException {
    private static final long serialVersionUID = 1;

    TooManyCallsException(String message) {
        this(message, null);
    }

    TooManyCallsException(String message, Throwable cause) {
        super(message, cause);
    }

    @Override
    AuthorizerdException copy() {
        return new TooManyCallsException(getMessage(), this);
    }
}
