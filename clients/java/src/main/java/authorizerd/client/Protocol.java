package authorizerd.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/** The frames of the decision stream: their encoding, and the errors in answers. */
final class Protocol {
    /** The daemon's default limit for a frame of questions. */
    static final int FRAME_BYTES_MAX = 131_072;

    static final int NOT_READY_ERROR = 801;
    static final String NOT_READY_TEXT =
            "the daemon cannot decide: its ACLs are not loaded yet, or stale; its /readyz says which";

    /** An upper bound for the part of a frame that is not questions. */
    private static final int HEAD_BYTES = 32;

    /** The maximum size of a list's length in msgpack. */
    private static final int LIST_HEAD_BYTES = 5;

    private static final int QUESTIONS_PER_FRAME = 256;
    private static final int VERSION = 1;
    private static final int QUESTION_FIELDS = 5;

    /** After two refused frames in a row, the daemon ignores the client this long. */
    private static final Duration FRAME_REFUSED = Duration.ofMillis(100);

    /** Connections and memory free up more slowly than CPU time. */
    private static final Duration CONNECTION_REFUSED = Duration.ofSeconds(1);

    private Protocol() {}

    /** Questions that can be sent on any connection. */
    record Request(byte[] encoded, int count, long minOffset) {
        Request withMinOffset(long offset) {
            return offset <= minOffset ? this : new Request(encoded, count, offset);
        }
    }

    /** Encode questions. Throws {@link InvalidQuestionException}. */
    static Request encodeRequest(List<Question> questions, long minOffset, int frameBytesMax) {
        Msgpack.Bytes encoded = new Msgpack.Bytes(64 * (questions.size() + 1));
        Msgpack.encodeArrayHead(encoded, questions.size());
        for (Question question : questions) {
            encodeQuestion(encoded, question);
            if (encoded.size() > frameBytesMax - HEAD_BYTES) {
                throw new InvalidQuestionException(questions.size() + " questions do not fit into a frame of "
                        + frameBytesMax + " bytes: ask fewer questions at once");
            }
        }
        return new Request(encoded.toArray(), questions.size(), minOffset);
    }

    private static void encodeQuestion(Msgpack.Bytes to, Question question) {
        try {
            Msgpack.encodeArrayHead(to, QUESTION_FIELDS);
            Msgpack.encodeText(to, question.principal());
            Msgpack.encodeText(to, question.host());
            Msgpack.encodeText(to, question.operation());
            Msgpack.encodeText(to, question.resourceType());
            Msgpack.encodeText(to, question.resourceName());
        } catch (Msgpack.FormatException | ArithmeticException | OutOfMemoryError error) {
            throw new InvalidQuestionException("the question cannot be encoded: " + error.getMessage(), error);
        }
    }

    /** Split the questions about all {@code names} into lists that each fit into one frame. */
    static Iterator<List<Question>> planFrames(Question about, Iterator<String> names, int frameBytesMax) {
        return new Iterator<>() {
            private Question next;

            @Override
            public boolean hasNext() {
                return next != null || names.hasNext();
            }

            @Override
            public List<Question> next() {
                List<Question> questions = new ArrayList<>();
                Msgpack.Bytes encoded = new Msgpack.Bytes(4096);
                while (hasNext() && questions.size() < QUESTIONS_PER_FRAME) {
                    if (next == null) {
                        next = new Question(about.principal(), about.host(), about.operation(),
                                about.resourceType(), names.next());
                    }
                    encodeQuestion(encoded, next);
                    int size = HEAD_BYTES + LIST_HEAD_BYTES + encoded.size();
                    if (!questions.isEmpty() && size > frameBytesMax) {
                        break;
                    }
                    questions.add(next);
                    next = null;
                }
                return questions;
            }
        };
    }

    /** Append the first frame of a connection. Throws {@link IllegalArgumentException}. */
    static void encodeHello(Msgpack.Bytes to, String token) {
        Msgpack.Bytes content = new Msgpack.Bytes(256);
        try {
            Msgpack.encodeArrayHead(content, 3);
            Msgpack.encodeText(content, "hello");
            Msgpack.encodeInteger(content, VERSION);
            Msgpack.encodeText(content, token);
        } catch (Msgpack.FormatException error) {
            throw new IllegalArgumentException("invalid token: " + error.getMessage(), error);
        }
        to.putInt(content.size());
        to.put(content.toArray());
    }

    /** Append a frame of questions. */
    static void encodeFrame(Msgpack.Bytes to, long correlationId, Request request) {
        to.reserve(request.encoded.length + HEAD_BYTES);
        int start = to.size();
        to.putInt(0);
        boolean hasOffset = request.minOffset >= 0;
        Msgpack.encodeArrayHead(to, hasOffset ? 3 : 2);
        Msgpack.encodeInteger(to, correlationId);
        to.put(request.encoded);
        if (hasOffset) {
            Msgpack.encodeInteger(to, request.minOffset);
        }
        int size = to.size() - start - 4;
        for (int index = 0; index < 4; index++) {
            to.array[to.start + start + index] = (byte) (size >> (24 - 8 * index));
        }
    }

    /** Return the error for one frame, which the daemon answered with an error code. */
    static AnswerException newFrameError(int code) {
        return newAnswerError(code, FRAME_REFUSED);
    }

    /** Return the error for a connection that the daemon refuses or ends. */
    static AnswerException newConnectionError(int code) {
        return newAnswerError(code, CONNECTION_REFUSED);
    }

    private static AnswerException newAnswerError(int code, Duration retryAfter) {
        return switch (code) {
            case 7 -> new OffsetNotReachedException("the required offset was not reached in time", code);
            case 31 -> new ForbiddenException(
                    "the caller may not ask about others: authorizerd.callers.ask does not list it", code);
            case 35 -> new UnsupportedVersionException(
                    "the daemon does not speak version 1 of the decision stream", code);
            case 42 -> new InvalidRequestException("the daemon could not read the questions", code);
            case 58 -> new TokenRefusedException("a valid token or client certificate is required", code);
            case 89 -> new OverloadedException("the daemon is overloaded", code, retryAfter);
            case NOT_READY_ERROR -> new NotReadyException(NOT_READY_TEXT, code);
            default -> new AnswerException("the daemon answered with an error", code);
        };
    }
}
