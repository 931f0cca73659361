package authorizerd.client;

/** The daemon's ACLs did not reach the required offset in time. */
public final class OffsetNotReachedException extends AnswerException {
    private static final long serialVersionUID = 1;

    OffsetNotReachedException(String message, int code) {
        super(message, code);
    }

    private OffsetNotReachedException(OffsetNotReachedException cause) {
        super(cause.getMessage(), cause.code(), cause);
    }

    @Override
    AuthorizerdException copy() {
        return new OffsetNotReachedException(this);
    }
}
