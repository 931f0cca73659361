import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.acl.AclOperation;
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
import org.apache.kafka.server.authorizer.Action;

/** A question of a set, from a JSON line that tools/bench/sets.py writes. */
record Question(String asker, RequestContext context, List<Action> actions) {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final RequestHeader HEADER =
        new RequestHeader(ApiKeys.METADATA, (short) 12, "bench", 1);

    static List<Question> read(Path path) throws IOException {
        List<Question> questions = new ArrayList<>();
        for (String line : Files.readAllLines(path)) {
            String[] row = JSON.readValue(line, String[].class);
            String[] principal = row[0].split(":", 2);
            RequestContext context =
                new RequestContext(
                    HEADER, "bench", InetAddress.getByName(row[1]),
                    new KafkaPrincipal(principal[0], principal[1]), new ListenerName("PLAINTEXT"),
                    SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
            ResourcePattern resource =
                new ResourcePattern(ResourceType.valueOf(row[3]), row[4], PatternType.LITERAL);
            Action action = new Action(AclOperation.valueOf(row[2]), resource, 1, true, true);
            questions.add(new Question(row[0] + row[1], context, List.of(action)));
        }
        return questions;
    }
}
