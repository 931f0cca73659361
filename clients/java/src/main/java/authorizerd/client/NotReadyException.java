package authorizerd.client;

/** The daemon has no ACLs to decide by: not loaded yet, or stale. Ask again later. */
public final class NotReadyException extends AnswerException {
    private static final long serialVersionUID = 1;

    NotReadyException(String message, int code) {
        super(message, code);
    }

    private NotReadyException(NotReadyException cause) {
        super(cause.getMessage(), cause.code(), cause);
    }

    @Override
    AuthorizerdException copy() {
        return new NotReadyException(this);
    }
}
