package authorizerd.client;

/** The calling thread was interrupted. Its interrupt flag is set again. */
public final class CallInterruptedException extends AuthorizerdException {
    private static final long serialVersionUID = 1;

    CallInterruptedException(String message) {
        this(message, null);
    }

    CallInterruptedException(String message, Throwable cause) {
        super(message, cause);
    }

    @Override
    AuthorizerdException copy() {
        return new CallInterruptedException(getMessage(), this);
    }
}
