package authorizerd.client;

/** Base of all errors of the client. The caller has no decision and must deny. */
public abstract class AuthorizerdException extends RuntimeException {
    private static final long serialVersionUID = 1;

    AuthorizerdException(String message, Throwable cause) {
        super(message, cause);
    }

    /** Return the same error with this one as its cause, and with the stack of this thread. */
    abstract AuthorizerdException copy();
}
