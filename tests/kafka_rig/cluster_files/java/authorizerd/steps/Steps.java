package authorizerd.steps;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.locks.LockSupport;
import org.apache.hadoop.fs.FSDataOutputStream;

/**
 * Counts the operations that change a table's files, and stops at one of them.
 *
 * <p>The folder {@code steps.folder} has the file {@code order}: the number of the step, what happens
 * there, and the beginning of the table's paths. {@code tests/conformance/ingest_steps} does the same
 * for Python.
 */
public final class Steps {
  private static volatile Path folder;
  private static long stop;
  private static boolean isCut;
  private static String table;

  static {
    try {
      arm(System.getProperty("steps.folder"));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private Steps() {}

  /** Reads an order and follows it from now on; null ends that. */
  public static synchronized void arm(String named) throws IOException {
    folder = null;
    if (named != null) {
      Path given = Path.of(named);
      String[] order = Files.readString(given.resolve("order")).split(" ");
      stop = Long.parseLong(order[0]);
      isCut = order[1].equals("cut");
      table = order[2];
      folder = given;
    }
  }

  /** Counts an operation before it is carried out. */
  public static void reach(String name, Object path) throws IOException {
    if (folder == null || !path.toString().contains(table)) {
      return;
    }
    Path steps = folder;
    long number = count(steps.resolve("trace"), "jvm " + name + " " + path + "\n");
    if (number == stop) {
      Files.writeString(steps.resolve("reached"), "");
    }
    if (number >= stop && isCut) {
      throw new IOException("cut off at step " + stop);
    }
    while (number == stop && !Files.exists(steps.resolve("go"))) {
      LockSupport.parkNanos(2_000_000);
    }
  }

  private static synchronized long count(Path trace, String line) throws IOException {
    Files.writeString(trace, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    try (var lines = Files.lines(trace)) {
      return lines.count();
    }
  }

  /** Returns a stream whose {@code close} is a step, because it completes the file. */
  static FSDataOutputStream counted(FSDataOutputStream stream, Object path) throws IOException {
    return new FSDataOutputStream(stream, null, stream.getPos()) {
      private boolean isClosed = false;

      @Override
      public void close() throws IOException {
        if (!isClosed) {
          isClosed = true;
          reach("close", path);
        }
        super.close();
      }
    };
  }
}
