package authorizerd.client;

/** The daemon answered with an error instead of decisions. */
public class AnswerException extends AuthorizerdException {
    private static final long serialVersionUID = 1;

    /** The error code. {@code authorizerd docs stream} lists all codes. */
    private final int code;

    AnswerException(String message, int code) {
        this(message + " (error " + code + ")", code, null);
    }

    AnswerException(String message, int code, Throwable cause) {
        super(message, cause);
        this.code = code;
    }

    /**
     * Return the error code.
     *
     * @return a code that {@code authorizerd docs stream} lists, or one of a later version
     */
    public final int code() {
        return code;
    }

    @Override
    AuthorizerdException copy() {
        return new AnswerException(getMessage(), code, this);
    }
}
