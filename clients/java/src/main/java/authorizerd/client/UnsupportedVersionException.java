package authorizerd.client;

/** The daemon does not speak this client's version of the protocol. */
public final class UnsupportedVersionException extends AnswerException {
    private static final long serialVersionUID = 1;

    UnsupportedVersionException(String message, int code) {
        super(message, code);
    }

    private UnsupportedVersionException(UnsupportedVersionException cause) {
        super(cause.getMessage(), cause.code(), cause);
    }

    @Override
    AuthorizerdException copy() {
        return new UnsupportedVersionException(this);
    }
}
