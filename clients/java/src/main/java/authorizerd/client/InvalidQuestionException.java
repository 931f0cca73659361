package authorizerd.client;

/** A question is invalid, or too large for a frame. */
public final class InvalidQuestionException extends AuthorizerdException {
    private static final long serialVersionUID = 1;

    InvalidQuestionException(String message) {
        this(message, null);
    }

    InvalidQuestionException(String message, Throwable cause) {
        super(message, cause);
    }

    @Override
    AuthorizerdException copy() {
        return new InvalidQuestionException(getMessage(), this);
    }
}
