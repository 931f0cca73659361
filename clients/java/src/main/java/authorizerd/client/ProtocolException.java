package authorizerd.client;

/** The peer violated the protocol of the decision stream. The client closed the connection. */
public final class ProtocolException extends AuthorizerdException {
    private static final long serialVersionUID = 1;

    ProtocolException(String message) {
        this(message, null);
    }

    ProtocolException(String message, Throwable cause) {
        super(message, cause);
    }

    @Override
    AuthorizerdException copy() {
        return new ProtocolException(getMessage(), this);
    }
}
