import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/** A set's questions, from the JSON lines that tools/bench/sets.py writes. */
final class Questions {
    static final ObjectMapper JSON = new ObjectMapper();

    record Question(Context context, List<Action> actions) {}

    static List<Question> read(Path path) throws IOException {
        List<Question> questions = new ArrayList<>();
        for (String line : Files.readAllLines(path)) {
            String[] row = JSON.readValue(line, String[].class);
            int colon = row[0].indexOf(':');
            KafkaPrincipal principal =
                new KafkaPrincipal(row[0].substring(0, colon), row[0].substring(colon + 1));
            ResourcePattern resource =
                new ResourcePattern(ResourceType.valueOf(row[3]), row[4], PatternType.LITERAL);
            questions.add(
                new Question(
                    new Context(principal, InetAddress.getByName(row[1])),
                    List.of(new Action(AclOperation.valueOf(row[2]), resource, 1, true, true))));
        }
        return questions;
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
