package authorizerd.client;

/** The caller lacks a right: the daemon does not list it in {@code authorizerd.callers.ask}. */
public final class ForbiddenException extends AnswerException {
    private static final long serialVersionUID = 1;

    ForbiddenException(String message, int code) {
        super(message, code);
    }

    private ForbiddenException(ForbiddenException cause) {
        super(cause.getMessage(), cause.code(), cause);
    }

    @Override
    AuthorizerdException copy() {
        return new ForbiddenException(this);
    }
}
