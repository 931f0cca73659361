package authorizerd.client;

/** The daemon could not read the questions: a field has an unexpected type. */
public final class InvalidRequestException extends AnswerException {
    private static final long serialVersionUID = 1;

    InvalidRequestException(String message, int code) {
        super(message, code);
    }

    private InvalidRequestException(InvalidRequestException cause) {
        super(cause.getMessage(), cause.code(), cause);
    }

    @Override
    AuthorizerdException copy() {
        return new InvalidRequestException(this);
    }
}
