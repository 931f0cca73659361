import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/** A set's ACLs and questions, from the JSON lines that tools/bench/sets.py writes. */
record AclSet(Map<Uuid, StandardAcl> acls, List<Question> questions) {
    static final ObjectMapper JSON = new ObjectMapper();

    record Question(Context context, Action action) {}

    static AclSet read(Path directory, String name) throws IOException {
        return new AclSet(
            readAcls(directory.resolve(name + ".acls.jsonl")),
            readQuestions(directory.resolve(name + ".questions.jsonl")));
    }

    private static Map<Uuid, StandardAcl> readAcls(Path path) throws IOException {
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        for (String[] row : rows(path)) {
            acls.put(
                Uuid.randomUuid(),
                new StandardAcl(
                    ResourceType.valueOf(row[0]),
                    row[1],
                    PatternType.valueOf(row[2]),
                    row[3],
                    row[4],
                    AclOperation.valueOf(row[5]),
                    AclPermissionType.valueOf(row[6])));
        }
        return acls;
    }

    static List<Question> readQuestions(Path path) throws IOException {
        List<Question> questions = new ArrayList<>();
        for (String[] row : rows(path)) {
            int colon = row[0].indexOf(':');
            KafkaPrincipal principal =
                new KafkaPrincipal(row[0].substring(0, colon), row[0].substring(colon + 1));
            ResourcePattern resource =
                new ResourcePattern(ResourceType.valueOf(row[3]), row[4], PatternType.LITERAL);
            questions.add(
                new Question(
                    new Context(principal, InetAddress.getByName(row[1])),
                    new Action(AclOperation.valueOf(row[2]), resource, 1, true, true)));
        }
        return questions;
    }

    private static Iterable<String[]> rows(Path path) throws IOException {
        List<String[]> rows = new ArrayList<>();
        try (Stream<String> lines = Files.lines(path)) {
            for (String line : (Iterable<String>) lines::iterator) {
                rows.add(JSON.readValue(line, String[].class));
            }
        }
        return rows;
    }

    /** A request with this principal and host; its other values are those of an ordinary client. */
    record Context(KafkaPrincipal principal, InetAddress clientAddress)
        implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 3;
        }

        @Override
        public int requestVersion() {
            return 12;
        }

        @Override
        public String clientId() {
            return "bench";
        }

        @Override
        public int correlationId() {
            return 1;
        }
    }
}
