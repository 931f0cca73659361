package authorizerd.client;

/** The token is unknown, or the daemon requires one and got none. */
public final class TokenRefusedException extends AnswerException {
    private static final long serialVersionUID = 1;

    TokenRefusedException(String message, int code) {
        super(message, code);
    }

    private TokenRefusedException(TokenRefusedException cause) {
        super(cause.getMessage(), cause.code(), cause);
    }

    @Override
    AuthorizerdException copy() {
        return new TokenRefusedException(this);
    }
}
