import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Measures Kafka's StandardAuthorizer and prints one JSON object.
 *
 * <p>{@code Peer decisions DIRECTORY SET SECONDS} or {@code Peer state DIRECTORY SET}
 */
final class Peer {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final long ROUND_NS = 20_000_000;
    private static final int ROUNDS_MIN = 5;
    private static final int LOADS = 4;
    private static final int UPDATES = 5_000;

    /** Prevents the compiler from removing calls whose answer is not used. */
    static volatile Object sink;

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[1]);
        String name = arguments[2];
        Map<String, Object> report =
            arguments[0].equals("decisions")
                ? decisions(AclSet.read(directory, name), name, Double.parseDouble(arguments[3]))
                : state(directory, name);
        System.out.println(AclSet.JSON.writeValueAsString(report));
    }

    private static StandardAuthorizer newAuthorizer() {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of("node.id", "1"));
        Plugin.wrapInstance(authorizer, new Metrics(), "authorizer.class.name");
        return authorizer;
    }

    static StandardAuthorizer loaded(Map<Uuid, StandardAcl> acls) {
        StandardAuthorizer authorizer = newAuthorizer();
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
        return authorizer;
    }

    /** Measures decisions. A wide set has one principal, so one call asks all its questions; else a call asks one. */
    private static Map<String, Object> decisions(AclSet set, String name, double seconds) {
        StandardAuthorizer authorizer = loaded(set.acls());
        List<AclSet.Question> questions = set.questions();
        StringBuilder answers = new StringBuilder();
        for (AclSet.Question question : questions) {
            answers.append(
                authorizer.authorize(question.context(), List.of(question.action())).get(0)
                        == AuthorizationResult.ALLOWED
                    ? 'A'
                    : 'D');
        }
        Runnable round;
        if (name.startsWith("wide")) {
            List<Action> actions = questions.stream().map(AclSet.Question::action).toList();
            round = () -> sink = authorizer.authorize(questions.get(0).context(), actions);
        } else {
            List<List<Action>> alone =
                questions.stream().map(question -> List.of(question.action())).toList();
            round =
                () -> {
                    for (int i = 0; i < alone.size(); i++) {
                        sink = authorizer.authorize(questions.get(i).context(), alone.get(i));
                    }
                };
        }
        System.gc();
        timed(round, questions.size(), seconds);
        Map<String, Object> report = timed(round, questions.size(), seconds);
        report.put("answers", answers.toString());
        return report;
    }

    /** Repeats short runs of rounds; the first call of this method is the warm-up. */
    private static Map<String, Object> timed(Runnable round, int questions, double seconds) {
        List<Double> cpu = new ArrayList<>();
        List<Double> wall = new ArrayList<>();
        long begun = THREADS.getCurrentThreadCpuTime();
        while (cpu.size() < ROUNDS_MIN
            || THREADS.getCurrentThreadCpuTime() - begun < seconds * 1e9) {
            long wallStart = System.nanoTime();
            long cpuStart = THREADS.getCurrentThreadCpuTime();
            double asked = 0;
            do {
                round.run();
                asked += questions;
            } while (THREADS.getCurrentThreadCpuTime() - cpuStart < ROUND_NS);
            cpu.add((THREADS.getCurrentThreadCpuTime() - cpuStart) / asked);
            wall.add((System.nanoTime() - wallStart) / asked);
        }
        Collections.sort(cpu);
        Collections.sort(wall);
        Map<String, Object> report = new LinkedHashMap<>();
        report.put("rounds", cpu.size());
        report.put("cpu_ns_min", cpu.get(0));
        report.put("cpu_ns_median", cpu.get(cpu.size() / 2));
        report.put("wall_ns_median", wall.get(wall.size() / 2));
        return report;
    }

    private static Map<String, Object> state(Path directory, String name) throws Exception {
        Map<Uuid, StandardAcl> acls = AclSet.read(directory, name).acls();
        int count = acls.size();
        Map<String, Object> report = new TreeMap<>();
        List<Double> seconds = new ArrayList<>();
        for (int i = 0; i < LOADS; i++) {
            System.gc();
            long start = System.nanoTime();
            sink = loaded(acls);
            seconds.add((System.nanoTime() - start) / 1e9);
        }
        sink = null;
        report.put("load_seconds_cold", seconds.get(0));
        Collections.sort(seconds);
        report.put("load_seconds_warm", seconds.get(0));
        StandardAuthorizer authorizer = loaded(acls);
        report.put("update_us", updates(authorizer, acls));
        acls = null; // otherwise the map would keep the ACLs alive
        long held = heapUsed();
        report.put("acl_count", authorizer.aclCount());
        authorizer = null;
        report.put("heap_bytes_per_acl", (held - heapUsed()) / (double) count);
        return report;
    }

    /** Removes an ACL and adds it again, repeatedly; each of the two is an update. */
    static Map<String, Object> updates(
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
        Arrays.sort(us);
        return percentiles(us);
    }

    /** Returns percentiles of values in ascending order. */
    static Map<String, Object> percentiles(double[] us) {
        Map<String, Object> report = new TreeMap<>();
        report.put("p50", us[us.length / 2]);
        report.put("p99", us[us.length * 99 / 100]);
        report.put("max", us[us.length - 1]);
        return report;
    }

    /** The heap in use after full collections, in bytes. */
    static long heapUsed() throws InterruptedException {
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
