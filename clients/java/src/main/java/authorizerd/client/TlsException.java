package authorizerd.client;

/** A certificate is refused, or one side does not speak TLS; the message names the remedy. */
public final class TlsException extends AuthorizerdException {
    private static final long serialVersionUID = 1;

    TlsException(String message) {
        this(message, null);
    }

    TlsException(String message, Throwable cause) {
        super(message, cause);
    }

    @Override
    AuthorizerdException copy() {
        return new TlsException(getMessage(), this);
    }
}
