package authorizerd.client;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/** The one thread of a client: it has all sockets and timers. */
final class Loop implements Runnable {
    private static final int READ_BYTES = 64 * 1024;
    private static final int TASKS_PER_TURN = 1000;
    private static final AtomicInteger THREADS = new AtomicInteger();

    /** What every socket is read into, before its bytes go elsewhere. */
    final ByteBuffer readBuffer = ByteBuffer.allocateDirect(READ_BYTES);

    private final Selector selector;
    private final Thread thread;
    private final LongSupplier clock;
    private final long origin;
    private final Consumer<Throwable> onEnd;
    private final ConcurrentLinkedQueue<Runnable> tasks = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean isAwake = new AtomicBoolean();
    private final ArrayDeque<Runnable> lastOfTurn = new ArrayDeque<>();

    /** A binary heap; {@code timers.get(0)} is due first. */
    private final List<Timer> timers = new ArrayList<>();

    private boolean isEnding;

    /** Something to do at a time; belongs to one loop. */
    static final class Timer {
        private final long time;
        private final Runnable action;
        private int index;

        private Timer(long time, Runnable action) {
            this.time = time;
            this.action = action;
        }
    }

    /**
     * Start the thread.
     *
     * @param onEnd is called once, by the thread, when it ends; with null after {@link #end}
     */
    Loop(LongSupplier clock, Consumer<Throwable> onEnd) {
        this.clock = clock;
        origin = clock.getAsLong();
        this.onEnd = onEnd;
        try {
            selector = Selector.open();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        thread = newThread("authorizerd-client-" + THREADS.incrementAndGet(), this);
    }

    /** Return a thread that does not keep the process running. */
    static Thread newThread(String name, Runnable task) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        return thread;
    }

    void start() {
        thread.start();
    }

    /** Return the nanoseconds since the loop was made. */
    long now() {
        return clock.getAsLong() - origin;
    }

    Selector selector() {
        return selector;
    }

    boolean isCurrentThread() {
        return Thread.currentThread() == thread;
    }

    /** Run {@code task} in the thread, in order. Any thread may call this. */
    void execute(Runnable task) {
        tasks.add(task);
        if (!isAwake.getAndSet(true)) {
            selector.wakeup();
        }
    }

    /** Run {@code task} at the end of this turn. */
    void atEndOfTurn(Runnable task) {
        lastOfTurn.add(task);
    }

    /** End the thread after this turn. */
    void end() {
        isEnding = true;
    }

    /** Wait until the thread has ended, but no longer than {@code milliseconds}. */
    void join(long milliseconds) {
        try {
            thread.join(milliseconds);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void run() {
        Throwable failure = null;
        try {
            while (!isEnding) {
                isAwake.set(true);
                runTasks();
                runTimers();
                for (Runnable task; (task = lastOfTurn.poll()) != null; ) {
                    task.run();
                }
                await();
            }
        } catch (Throwable error) { // the caller must learn of every end
            failure = error;
        } finally {
            onEnd.accept(failure);
            closeSelector();
        }
    }

    private void runTasks() {
        for (int count = 0; count < TASKS_PER_TURN; count++) {
            Runnable task = tasks.poll();
            if (task == null) {
                return;
            }
            task.run();
        }
    }

    private void runTimers() {
        while (!timers.isEmpty() && timers.get(0).time <= now()) {
            Timer timer = timers.get(0);
            cancel(timer);
            timer.action.run();
        }
    }

    /** Wait for sockets, timers and tasks, and serve the sockets. */
    private void await() throws IOException {
        isAwake.set(false);
        long milliseconds = 0;
        if (!timers.isEmpty()) {
            long nanos = timers.get(0).time - now();
            milliseconds = Math.max(0, Math.min(nanos / 1_000_000, 3_600_000)) + 1;
        }
        if (isEnding || !tasks.isEmpty() || !lastOfTurn.isEmpty()) {
            selector.selectNow(this::serve);
        } else {
            selector.select(this::serve, milliseconds);
        }
    }

    private void serve(SelectionKey key) {
        isAwake.set(true); // the next turn runs the tasks
        ((Runnable) key.attachment()).run();
    }

    private void closeSelector() {
        try {
            selector.close();
        } catch (IOException ignored) {
            // nothing is left to close
        }
    }

    /** Run {@code action} at {@code time}, unless the timer is cancelled. */
    Timer at(long time, Runnable action) {
        Timer timer = new Timer(time, action);
        timers.add(timer);
        rise(timer, timers.size() - 1);
        return timer;
    }

    /** Cancel a timer, if it has not been; null is ignored. */
    void cancel(Timer timer) {
        if (timer == null || timer.index < 0) {
            return;
        }
        Timer last = timers.remove(timers.size() - 1);
        if (last != timer) {
            rise(last, timer.index);
            sink(last);
        }
        timer.index = -1;
    }

    private void rise(Timer timer, int from) {
        int index = from;
        while (index > 0 && timers.get((index - 1) / 2).time > timer.time) {
            place(timers.get((index - 1) / 2), index);
            index = (index - 1) / 2;
        }
        place(timer, index);
    }

    private void sink(Timer timer) {
        int index = timer.index;
        for (int child; (child = 2 * index + 1) < timers.size(); ) {
            if (child + 1 < timers.size() && timers.get(child + 1).time < timers.get(child).time) {
                child++;
            }
            if (timers.get(child).time >= timer.time) {
                break;
            }
            place(timers.get(child), index);
            index = child;
        }
        place(timer, index);
    }

    private void place(Timer timer, int index) {
        timers.set(index, timer);
        timer.index = index;
    }
}
