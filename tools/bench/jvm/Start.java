import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
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
 * Starts StandardAuthorizer from a checkpoint as a broker does, asks it, and prints one JSON object.
 *
 * <p>{@code Start DIRECTORY OFFSET EPOCH QUESTIONS}: the checkpoint's directory, end offset and
 * epoch, and a file with a question per line.
 */
final class Start {
    private static final int WARM_UPS = 3;
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] arguments) throws Exception {
        OffsetAndEpoch id =
            new OffsetAndEpoch(Long.parseLong(arguments[1]), Integer.parseInt(arguments[2]));
        // A broker keeps the image.
        MetadataImage image = read(Path.of(arguments[0]), id);
        Map<Uuid, StandardAcl> acls = image.acls().acls();
        StandardAuthorizer authorizer = Peer.loaded(acls);
        Instant started = ProcessHandle.current().info().startInstant().orElseThrow();
        Map<String, Object> report = new TreeMap<>();
        report.put("seconds", Duration.between(started, Instant.now()).toMillis() / 1e3);
        report.put("cpu_seconds", SYSTEM.getProcessCpuTime() / 1e9);
        report.put("acl_count", authorizer.aclCount());
        report.put("heap_bytes", Peer.heapUsed());
        List<AclSet.Question> questions = AclSet.readQuestions(Path.of(arguments[3]));
        report.putAll(decide(authorizer, questions));
        report.put("update_us", Peer.updates(authorizer, acls));
        System.out.println(AclSet.JSON.writeValueAsString(report));
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

    /** Asks each question in a call of its own; only the last of several rounds is timed. */
    private static Map<String, Object> decide(
        StandardAuthorizer authorizer, List<AclSet.Question> questions) {
        List<List<Action>> alone =
            questions.stream().map(question -> List.of(question.action())).toList();
        double[] us = new double[alone.size()];
        StringBuilder answers = new StringBuilder();
        for (int round = 0; round <= WARM_UPS; round++) {
            answers.setLength(0);
            for (int i = 0; i < us.length; i++) {
                long start = System.nanoTime();
                AuthorizationResult result =
                    authorizer.authorize(questions.get(i).context(), alone.get(i)).get(0);
                us[i] = (System.nanoTime() - start) / 1e3;
                answers.append(result == AuthorizationResult.ALLOWED ? 'A' : 'D');
            }
        }
        Arrays.sort(us);
        return Map.of("decision_us", Peer.percentiles(us), "answers", answers.toString());
    }
}
