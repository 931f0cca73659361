package authorizerd.client;

/** No daemon could be reached, or the connection broke before the answer arrived. */
public final class ConnectionLostException extends AuthorizerdException {
    private static final long serialVersionUID = 1;

    ConnectionLostException(String message) {
        this(message, null);
    }

    ConnectionLostException(String message, Throwable cause) {
        super(message, cause);
    }

    @Override
    AuthorizerdException copy() {
        return new ConnectionLostException(getMessage(), this);
    }
}
