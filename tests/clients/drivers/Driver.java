package authorizerd.client;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Calls the client as a test says: reads frames of msgpack, which {@code remote_clients.py} writes.
 *
 * <p>Every second call blocks in a thread; the others are asynchronous.
 */
final class Driver {
    /** Kafka's names of the codes that tests use: this client takes only names. */
    private static final Map<Long, String> OPERATIONS = Map.of(1L, "ANY", 3L, "READ");
    private static final Map<Long, String> RESOURCE_TYPES = Map.of(2L, "TOPIC");

    private static final Map<Long, Client> CLIENTS = new ConcurrentHashMap<>();
    private static final ExecutorService THREADS = Executors.newCachedThreadPool();
    private static final DataOutputStream OUT = new DataOutputStream(System.out);
    private static volatile long shiftNanos;

    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(System.in);
        while (true) {
            byte[] content;
            try {
                content = in.readNBytes(in.readInt());
            } catch (EOFException end) {
                System.exit(0);
                return;
            }
            List<?> request;
            try {
                request = (List<?>) Msgpack.decode(content);
            } catch (Msgpack.FormatException error) {
                throw new IOException(error);
            }
            long id = (Long) request.get(0);
            try {
                CompletableFuture<?> answer = start(id, (String) request.get(1), request.subList(2, request.size()));
                answer.whenComplete((value, error) -> reply(id, value, error));
            } catch (RuntimeException | IOException error) {
                reply(id, null, error);
            }
        }
    }

    private static CompletableFuture<?> start(long id, String name, List<?> given) throws IOException {
        boolean blocks = id % 2 == 0;
        switch (name) {
            case "new" -> {
                CLIENTS.put((Long) given.get(0), newClient((List<?>) given.get(1), (List<?>) given.get(2)));
                return done(null);
            }
            case "shift" -> {
                shiftNanos += (Long) given.get(0) * 1_000_000;
                return done(null);
            }
            case "receive" -> {
                return done(receive((List<?>) given.get(0), (List<?>) given.get(1)));
            }
            case "readKey" -> {
                String password = (String) given.get(1);
                return done(Pem.readKey(Path.of((String) given.get(0)),
                        password == null ? null : password.toCharArray()).getEncoded());
            }
            case "leave" -> {
                return inThread(() -> leave((String) given.get(0)));
            }
            case "recode" -> {
                return done(recode((byte[]) given.get(0)));
            }
            default -> { }
        }
        Client client = CLIENTS.get((Long) given.get(0));
        switch (name) {
            case "offset" -> {
                return done(client.offset());
            }
            case "requireOffset" -> {
                client.requireOffset((Long) given.get(1));
                return done(null);
            }
            case "close" -> {
                client.close();
                return done(null);
            }
            case "connect" -> {
                return blocks ? inThread(() -> {
                    client.connect();
                    return null;
                }) : client.connectAsync();
            }
            case "readOffset" -> {
                return blocks ? inThread(client::readOffset) : client.readOffsetAsync();
            }
            default -> { }
        }
        CallOptions options = new CallOptions((Long) given.get(1), toDuration(given.get(2)));
        switch (name) {
            case "decide" -> {
                Question question = toQuestion(given.get(3));
                return blocks ? inThread(() -> client.decide(question, options))
                        : client.decideAsync(question, options);
            }
            case "decideMany" -> {
                List<Question> questions = ((List<?>) given.get(3)).stream().map(Driver::toQuestion).toList();
                CompletableFuture<Decisions> asked = blocks
                        ? inThread(() -> client.decideMany(questions, options))
                        : client.decideManyAsync(questions, options);
                return asked.thenApply(Driver::describe);
            }
            case "filterAllowed" -> {
                Question about = toQuestion(given.get(3));
                List<String> names = ((List<?>) given.get(4)).stream().map(Driver::toText).toList();
                return blocks ? inThread(() -> client.filterAllowed(about, names, options))
                        : client.filterAllowedAsync(about, names, options);
            }
            default -> throw new IllegalArgumentException("unknown command " + name);
        }
    }

    private static Client newClient(List<?> addresses, List<?> options) {
        Client.Builder builder = Client.builder(addresses.stream().map(String.class::cast).toList());
        builder.clock = () -> System.nanoTime() + shiftNanos;
        for (int index = 0; index < options.size(); index += 2) {
            Object value = options.get(index + 1);
            switch ((String) options.get(index)) {
                case "token" -> builder.token((String) value);
                case "timeoutMs" -> builder.timeout(toDuration(value));
                case "connectTimeoutMs" -> builder.connectTimeout(toDuration(value));
                case "failoverTimeoutMs" -> builder.failoverTimeout(toDuration(value));
                case "frameBytesMax" -> builder.frameBytesMax(((Long) value).intValue());
                case "framesInFlightMax" -> builder.framesInFlightMax(((Long) value).intValue());
                case "callsMax" -> builder.callsMax(((Long) value).intValue());
                case "bytesMax" -> builder.bytesMax((Long) value);
                case "tls" -> builder.tls(toTls((List<?>) value));
                default -> throw new IllegalArgumentException("unknown option " + options.get(index));
            }
        }
        return builder.build();
    }

    /** {@code files}: of the CAs, of the certificate with its key, and the newest version. */
    private static Tls toTls(List<?> files) {
        Tls tls = files.get(0) == null ? Tls.systemDefault() : Tls.trust(Path.of((String) files.get(0)));
        if (files.get(1) != null) {
            Path certificate = Path.of((String) files.get(1));
            tls = tls.withCertificate(certificate, certificate);
        }
        return files.get(2) == null ? tls : tls.withProtocols((String) files.get(2));
    }

    private static Duration toDuration(Object milliseconds) {
        return milliseconds == null ? null : Duration.ofMillis((Long) milliseconds);
    }

    private static Question toQuestion(Object value) {
        List<?> fields = (List<?>) value;
        return new Question(toText(fields.get(0)), toText(fields.get(1)), toName(fields.get(2), OPERATIONS),
                toName(fields.get(3), RESOURCE_TYPES), toText(fields.get(4)));
    }

    private static String toName(Object value, Map<Long, String> names) {
        return value instanceof Long code ? names.get(code) : toText(value);
    }

    /** A text that UTF-8 cannot encode comes as a list of UTF-16's units. */
    private static String toText(Object value) {
        if (value instanceof List<?> units) {
            StringBuilder text = new StringBuilder();
            units.forEach(each -> text.append((char) (long) (Long) each));
            return text.toString();
        }
        return (String) value;
    }

    private static List<?> describe(Decisions decisions) {
        List<Long> codes = new ArrayList<>();
        for (int index = 0; index < decisions.size(); index++) {
            codes.add((long) decisions.code(index));
        }
        return List.of(decisions.offset(), codes, decisions.allowed());
    }

    /**
     * Let fresh connections receive inputs.
     *
     * @param inputs each a list of pieces
     * @param counts how many questions each frame asks
     * @return for each input, the decisions about the frames that were answered with decisions
     */
    private static List<?> receive(List<?> inputs, List<?> counts) {
        List<Object> received = new ArrayList<>();
        for (Object pieces : inputs) {
            Connection connection = new Connection(4096);
            for (Object count : counts) {
                Question question = new Question("User:a", null, "READ", "TOPIC", "t");
                List<Question> questions = Collections.nCopies((int) (long) (Long) count, question);
                connection.ask(Protocol.encodeRequest(questions, -1, 4096), null, new Msgpack.Bytes(64));
            }
            List<Object> settled = new ArrayList<>();
            try {
                for (Object piece : (List<?>) pieces) {
                    connection.receive(ByteBuffer.wrap((byte[]) piece), (exchange, decisions, error) ->
                            settled.add(decisions == null ? null : describe(decisions)));
                }
            } catch (AuthorizerdException violation) {
                // as expected of most inputs; anything else ends the test
            }
            received.add(settled);
        }
        return received;
    }

    /** Leave calls to a daemon that does not answer, and close clients; return what came of it. */
    private static List<String> leave(String silent) throws Exception {
        CLIENTS.values().forEach(Client::close);
        List<String> outcomes = new ArrayList<>();
        Question question = new Question("User:alice", null, "READ", "TOPIC", "orders");
        CallOptions brief = CallOptions.NONE.withTimeout(Duration.ofMillis(200));
        Client.Builder builder = Client.builder(silent).callsMax(1).timeout(Duration.ofSeconds(50));
        Client client = builder.build();

        Thread caller = Thread.currentThread();
        Thread interrupter = new Thread(() -> {
            try {
                Thread.sleep(100);
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
            caller.interrupt();
        });
        interrupter.start();
        String name = nameOf(() -> client.decide(question));
        outcomes.add("interrupted: " + name + ", flag " + Thread.interrupted());
        interrupter.join();
        waitUntilFree(client);

        CompletableFuture<Boolean> cancelled = client.decideAsync(question);
        cancelled.cancel(true);
        outcomes.add("cancelled: " + cancelled.isCancelled());
        waitUntilFree(client);
        outcomes.add("after both: " + nameOf(() -> client.decide(question, brief)));

        CompletableFuture<String> inside = new CompletableFuture<>();
        AtomicReference<Client> made = new AtomicReference<>();
        Client own = Client.builder(silent).executor(task -> { // the client's thread calls this
            inside.complete(nameOf(() -> made.get().decide(question)));
            task.run();
        }).build();
        made.set(own);
        nameOf(() -> own.decideAsync(question, brief).get(30, TimeUnit.SECONDS)); // it times out
        outcomes.add("in its own thread: " + inside.get());

        Client rejecting = Client.builder(silent).executor(task -> {
            throw new RejectedExecutionException();
        }).build();
        outcomes.add("rejected by the executor: " + nameOf(
                () -> rejecting.decideAsync(question, brief).get(30, TimeUnit.SECONDS)));
        outcomes.add("null: " + nameOf(() -> client.decide(null)) + ", " + nameOf(() -> client.decideMany(null)));

        AtomicBoolean fails = new AtomicBoolean();
        Client.Builder failing = Client.builder(silent);
        failing.clock = () -> {
            if (fails.get() && Thread.currentThread().getName().startsWith("authorizerd-client-")) {
                throw new IllegalStateException("a fault of the client");
            }
            return System.nanoTime();
        };
        Client dying = failing.build();
        dying.connect();
        CompletableFuture<Boolean> lost = dying.decideAsync(question);
        fails.set(true);
        String later = nameOf(() -> dying.decide(question));
        outcomes.add("its thread failed: " + nameOf(() -> lost.get(30, TimeUnit.SECONDS)) + ", " + later
                + ", " + nameOf(() -> dying.decide(question)));

        CompletableFuture<Boolean> pending = own.decideAsync(question);
        for (Client each : List.of(client, own, rejecting, dying)) {
            each.close();
        }
        outcomes.add("closed: " + nameOf(() -> pending.get(30, TimeUnit.SECONDS)));
        List<String> threads = List.of("not read");
        for (int left = 100; left > 0 && !threads.isEmpty(); left--) {
            Thread.sleep(20);
            threads = Thread.getAllStackTraces().keySet().stream().map(Thread::getName)
                    .filter(each -> each.startsWith("authorizerd")).sorted().toList();
        }
        outcomes.add("threads: " + threads);
        return outcomes;
    }

    /** Wait until the client's only call is forgotten, which happens in its thread. */
    private static void waitUntilFree(Client client) throws InterruptedException {
        for (int left = 1000; nameOf(() -> {
            client.connect();
            return true;
        }).equals("TooManyCallsError"); left--) {
            if (left == 0) {
                throw new IllegalStateException("the call is still held");
            }
            Thread.sleep(5);
        }
    }

    private static String nameOf(Callable<?> call) {
        try {
            return String.valueOf(call.call());
        } catch (ExecutionException error) {
            return toName(error.getCause());
        } catch (Exception error) {
            return toName(error);
        }
    }

    private static String toName(Throwable error) {
        return error.getClass().getSimpleName().replaceFirst("Exception$", "Error");
    }

    private static byte[] recode(byte[] content) {
        try {
            Msgpack.Bytes encoded = new Msgpack.Bytes(0);
            encode(encoded, Msgpack.decode(content));
            return encoded.toArray();
        } catch (Msgpack.FormatException error) {
            throw new IllegalArgumentException(error);
        }
    }

    private static CompletableFuture<?> done(Object value) {
        return CompletableFuture.completedFuture(value);
    }

    private static <T> CompletableFuture<T> inThread(Callable<T> call) {
        CompletableFuture<T> future = new CompletableFuture<>();
        THREADS.execute(() -> {
            try {
                future.complete(call.call());
            } catch (Exception error) {
                future.completeExceptionally(error);
            }
        });
        return future;
    }

    private static void reply(long id, Object value, Throwable error) {
        Msgpack.Bytes content = new Msgpack.Bytes(256);
        try {
            encode(content, error == null ? List.of(id, Boolean.TRUE, listOf(value)) : List.of(id, Boolean.FALSE,
                    describe(error instanceof CompletionException wrapped ? wrapped.getCause() : error)));
        } catch (Msgpack.FormatException failure) {
            throw new IllegalStateException(failure);
        }
        synchronized (OUT) {
            try {
                OUT.writeInt(content.size());
                OUT.write(content.toArray());
                OUT.flush();
            } catch (IOException end) {
                System.exit(1);
            }
        }
    }

    private static List<?> describe(Throwable error) {
        List<Object> fields = new ArrayList<>();
        fields.add(toName(error));
        fields.add(String.valueOf(error.getMessage()));
        fields.add(error instanceof AnswerException answer ? (long) answer.code() : null);
        fields.add(error instanceof OverloadedException overloaded ? overloaded.retryAfter().toMillis() : null);
        return fields;
    }

    private static List<?> listOf(Object value) {
        List<Object> list = new ArrayList<>();
        list.add(value);
        return list;
    }

    private static void encode(Msgpack.Bytes to, Object value) throws Msgpack.FormatException {
        if (value instanceof List<?> list) {
            Msgpack.encodeArrayHead(to, list.size());
            for (Object each : list) {
                encode(to, each);
            }
        } else if (value instanceof Long number) {
            Msgpack.encodeInteger(to, number);
        } else if (value instanceof Boolean flag) {
            to.put(flag ? 0xc3 : 0xc2);
        } else if (value instanceof byte[] bytes) {
            to.put(0xc6);
            to.putInt(bytes.length);
            to.put(bytes);
        } else {
            Msgpack.encodeText(to, (String) value);
        }
    }
}
