import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
// Of Kafka 4.3 and 4.4.
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.raft.KafkaRaftClient;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.FileRawSnapshotReader;
import org.apache.kafka.snapshot.RecordsSnapshotReader;

/**
 * Starts Kafka's StandardAuthorizer from a checkpoint as a broker does, measures it, and prints one
 * JSON object.
 *
 * <p>{@code Peer DIRECTORY OFFSET EPOCH PLAN LOADS}: the checkpoint's directory, end offset and
 * epoch, the plan that in_memory.py has written, and how often the authorizer is loaded again.
 */
final class Peer {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final RequestHeader HEADER =
        new RequestHeader(ApiKeys.METADATA, (short) 12, "bench", 1);
    private static final long ROUND_NS = 20_000_000;
    private static final int ROUNDS_MIN = 5;
    private static final int UPDATES = 5_000;
    private static final int WARM_UPS = 3;

    /** Prevents the compiler from removing calls whose answer is not used. */
    static volatile Object sink;

    private record Question(String asker, RequestContext context, List<Action> actions) {
        static Question of(JsonNode question) throws IOException {
            String principal = question.get("principal").asText();
            String host = question.get("host").asText();
            String[] parts = principal.split(":", 2);
            RequestContext context =
                new RequestContext(
                    HEADER, "bench", InetAddress.getByName(host),
                    new KafkaPrincipal(parts[0], parts[1]), new ListenerName("PLAINTEXT"),
                    SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
            byte operation = (byte) question.get("operation").asInt();
            byte type = (byte) question.get("resource_type").asInt();
            ResourcePattern resource =
                new ResourcePattern(
                    ResourceType.fromCode(type), question.get("resource_name").asText(),
                    PatternType.LITERAL);
            Action action = new Action(AclOperation.fromCode(operation), resource, 1, true, true);
            return new Question(principal + host, context, List.of(action));
        }
    }

    public static void main(String[] arguments) throws Exception {
        OffsetAndEpoch id =
            new OffsetAndEpoch(Long.parseLong(arguments[1]), Integer.parseInt(arguments[2]));
        // A broker keeps the image.
        MetadataImage image = read(Path.of(arguments[0]), id);
        Map<Uuid, StandardAcl> acls = image.acls().acls();
        List<Double> loads = new ArrayList<>();
        StandardAuthorizer authorizer = loaded(acls, loads);
        Instant started = ProcessHandle.current().info().startInstant().orElseThrow();
        Map<String, Object> report = new TreeMap<>();
        report.put("seconds", Duration.between(started, Instant.now()).toMillis() / 1e3);
        report.put("cpu_seconds", SYSTEM.getProcessCpuTime() / 1e9);
        report.put("acls", authorizer.aclCount());
        report.put("memory_bytes", heapUsed());
        JsonNode plan = JSON.readTree(Path.of(arguments[3]).toFile());
        List<Question> questions = new ArrayList<>();
        for (JsonNode question : plan.get("questions")) {
            questions.add(Question.of(question));
        }
        calls(authorizer, questions, report);
        double seconds = plan.get("seconds").asDouble();
        if (seconds > 0) {
            decisions(authorizer, questions, seconds, report);
        }
        for (int i = 0; i < Integer.parseInt(arguments[4]); i++) {
            System.gc();
            sink = loaded(acls, loads);
        }
        sink = null;
        report.put("loads_s", loads);
        report.put("update_us", updates(authorizer, acls));
        // Otherwise the image would keep the ACLs alive.
        image = null;
        acls = null;
        questions = null;
        plan = null;
        long held = heapUsed();
        int count = authorizer.aclCount();
        authorizer = null;
        report.put("bytes_per_acl", (held - heapUsed()) / (double) count);
        System.out.println(JSON.writeValueAsString(report));
    }

    /** Reads a checkpoint, checks its batches, and returns the image, as MetadataLoader does. */
    private static MetadataImage read(Path directory, OffsetAndEpoch id) throws IOException {
        MetadataDelta delta = new MetadataDelta.Builder().build();
        try (FileRawSnapshotReader raw = FileRawSnapshotReader.open(directory, id);
            RecordsSnapshotReader<ApiMessageAndVersion> reader =
                RecordsSnapshotReader.of(
                    raw,
                    MetadataRecordSerde.INSTANCE,
                    BufferSupplier.create(),
                    KafkaRaftClient.MAX_BATCH_SIZE_BYTES,
                    true,
                    new LogContext())) {
            while (reader.hasNext()) {
                for (ApiMessageAndVersion record : reader.next().records()) {
                    delta.replay(record.message());
                }
            }
            long timestamp = reader.lastContainedLogTimestamp();
            return delta.apply(
                new MetadataProvenance(id.offset() - 1, id.epoch(), timestamp, true));
        }
    }

    private static StandardAuthorizer loaded(Map<Uuid, StandardAcl> acls, List<Double> loads) {
        long start = System.nanoTime();
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of("node.id", "1"));
        Plugin.wrapInstance(authorizer, new Metrics(), "authorizer.class.name");
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
        loads.add((System.nanoTime() - start) / 1e9);
        return authorizer;
    }

    /** Asks each question in a call of its own; only the last of several rounds is timed. */
    private static void calls(
        StandardAuthorizer authorizer, List<Question> questions, Map<String, Object> report) {
        double[] us = new double[questions.size()];
        StringBuilder answers = new StringBuilder();
        for (int round = 0; round <= WARM_UPS; round++) {
            answers.setLength(0);
            for (int i = 0; i < us.length; i++) {
                List<Action> actions = questions.get(i).actions();
                long start = System.nanoTime();
                AuthorizationResult result =
                    authorizer.authorize(questions.get(i).context(), actions).get(0);
                us[i] = (System.nanoTime() - start) / 1e3;
                answers.append(result == AuthorizationResult.ALLOWED ? 'A' : 'D');
            }
        }
        report.put("call_us", us);
        report.put("answers", answers.toString());
    }

    /** Measures CPU time in rounds. One call asks all questions if they have one principal. */
    private static void decisions(
        StandardAuthorizer authorizer, List<Question> questions, double seconds,
        Map<String, Object> report) {
        List<Action> all = questions.stream().map(question -> question.actions().get(0)).toList();
        boolean isOne = questions.stream().map(Question::asker).distinct().count() == 1;
        Runnable round = () -> sink = authorizer.authorize(questions.get(0).context(), all);
        Runnable each =
            () -> questions.forEach(it -> sink = authorizer.authorize(it.context(), it.actions()));
        System.gc();
        timed(isOne ? round : each, all.size(), seconds);
        report.put("rounds_ns", timed(isOne ? round : each, all.size(), seconds));
    }

    /** Returns the CPU time of a decision in each of many short runs. */
    private static List<Double> timed(Runnable round, int questions, double seconds) {
        List<Double> cpu = new ArrayList<>();
        long begun = THREADS.getCurrentThreadCpuTime();
        while (cpu.size() < ROUNDS_MIN
            || THREADS.getCurrentThreadCpuTime() - begun < seconds * 1e9) {
            long start = THREADS.getCurrentThreadCpuTime();
            double asked = 0;
            do {
                round.run();
                asked += questions;
            } while (THREADS.getCurrentThreadCpuTime() - start < ROUND_NS);
            cpu.add((THREADS.getCurrentThreadCpuTime() - start) / asked);
        }
        return cpu;
    }

    /** Removes an ACL and adds it again, repeatedly; each of the two is an update. */
    private static double[] updates(
        StandardAuthorizer authorizer, Map<Uuid, StandardAcl> acls) {
        List<Uuid> ids = new ArrayList<>(acls.keySet());
        double[] us = new double[2 * UPDATES];
        for (int pass = 0; pass < 2; pass++) {
            for (int i = 0; i < UPDATES; i++) {
                Uuid id = ids.get((int) (i * 7919L % ids.size()));
                StandardAcl acl = acls.get(id);
                long start = System.nanoTime();
                authorizer.removeAcl(id);
                long between = System.nanoTime();
                authorizer.addAcl(id, acl);
                us[2 * i] = (between - start) / 1e3;
                us[2 * i + 1] = (System.nanoTime() - between) / 1e3;
            }
        }
        return us;
    }

    /** The heap in use after full collections, in bytes. */
    private static long heapUsed() throws InterruptedException {
        long least = Long.MAX_VALUE;
        for (int i = 0; i < 4; i++) {
            System.gc();
            Thread.sleep(50);
            Runtime runtime = Runtime.getRuntime();
            least = Math.min(least, runtime.totalMemory() - runtime.freeMemory());
        }
        return least;
    }
}
