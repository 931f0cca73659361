package authorizerd.client;

import java.util.List;
import java.util.stream.IntStream;

/** The decisions about the questions of one frame, all by the same state of the ACLs. */
public final class Decisions {
    static final int ALLOWED = 1;
    static final int INVALID = 2;
    static final int NOT_READY = 3;

    private final long offset;
    private final byte[] codes;

    /** {@code codes} is not copied. */
    Decisions(long offset, byte[] codes) {
        this.offset = offset;
        this.codes = codes;
    }

    /**
     * Return the log offset of the ACLs that decided.
     *
     * @return -1 if the ACLs were not loaded
     */
    public long offset() {
        return offset;
    }

    /**
     * Return the number of decisions.
     *
     * @return the number of questions
     */
    public int size() {
        return codes.length;
    }

    /**
     * Return the daemon's byte for one question.
     *
     * @param index of the question, from 0
     * @return 0 denied, 1 allowed, 2 invalid question, 3 not ready; treat other codes as denied
     * @throws IndexOutOfBoundsException if there is no such question
     */
    public int code(int index) {
        return codes[index] & 0xff;
    }

    /**
     * Return true only if the daemon allows one question.
     *
     * @param index of the question, from 0
     * @return false for a question that is denied, invalid, or without a decision
     * @throws IndexOutOfBoundsException if there is no such question
     */
    public boolean isAllowed(int index) {
        return codes[index] == ALLOWED;
    }

    /**
     * Return one value per question.
     *
     * @return an unmodifiable list; true only if the daemon allows the question
     */
    public List<Boolean> allowed() {
        return IntStream.range(0, codes.length).mapToObj(this::isAllowed).toList();
    }

    /** Return whether the question at {@code index} is allowed. Throws if it has no decision. */
    boolean decide(int index, Question question) {
        switch (code(index)) {
            case INVALID -> throw new InvalidQuestionException("invalid question " + question
                    + ": expected a principal \"TYPE:NAME\", an IP address or null, a Kafka operation, a Kafka"
                    + " resource type and a non-empty name");
            case NOT_READY -> throw Protocol.newFrameError(Protocol.NOT_READY_ERROR);
            default -> {
                return isAllowed(index);
            }
        }
    }

    /** Return true if a daemon whose ACLs are not loaded has answered. */
    boolean lacksAcls() {
        for (byte code : codes) {
            if (code == NOT_READY) {
                return true;
            }
        }
        return codes.length == 0 && offset < 0; // without questions, the offset says it
    }

    @Override
    public String toString() {
        return "Decisions[offset=" + offset + ", allowed=" + allowed() + "]";
    }
}
