package org.apache.kafka.common.utils.internals; // the package of Exit since Kafka 4.4

import org.apache.kafka.common.utils.*; // the package of Exit before

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * Runs a tool's main method in this JVM: starting a JVM takes many times as long as most of their work.
 *
 * <p>A tool that would end the process ends its run instead. Runs do not overlap.
 */
public final class ToolRun {
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1;

        private final int code;

        private Ended(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    private ToolRun() { }

    /** Returns the tool's exit code, and what it printed to its standard output and error. */
    public static Map<String, Object> run(String mainClass, String[] arguments) {
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(printed, true, StandardCharsets.UTF_8);
        System.setOut(both);
        System.setErr(both);
        Exit.setExitProcedure((code, message) -> {
            throw new Ended(code);
        });
        int code = 0;
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Ended ended) {
                code = ended.code;
            } else {
                error.getCause().printStackTrace(both);
                code = 1;
            }
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException(mainClass, error);
        } finally {
            Exit.resetExitProcedure();
            System.setOut(out);
            System.setErr(err);
        }
        return Map.of("code", code, "printed", printed.toString(StandardCharsets.UTF_8));
    }
}
