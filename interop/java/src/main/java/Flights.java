import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.ProtocolVersion;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.*;
import com.datastax.oss.driver.api.core.metadata.schema.ClusteringOrder;
import com.datastax.oss.driver.api.core.metadata.schema.TableMetadata;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Semaphore;
import java.util.stream.Collectors;

/**
 * Runs the flights test through the Java driver: Flights HOST PORT FLIGHTS.csv.
 *
 * Writes the rows of a CSV (carrier, origin, month, day, flight, dest, distance) and reads them
 * back, with protocol 5 and 4, uncompressed and with LZ4. Throws if an answer differs from the rows
 * in memory. Prints a line for each pass.
 */
public class Flights
{
    static final String KEY = "carrier = ? AND origin = ? AND month = ?";
    static final String COLUMNS = "carrier, origin, month, day, flight, dest, distance";

    final CqlSession session;
    final String table;
    final List<List<Object>> flights;
    /** The rows by partition, in clustering order: day up, flight down. */
    final Map<List<Object>, List<List<Object>>> partitions = new HashMap<>();

    public static void main(String[] arguments) throws Exception
    {
        List<List<Object>> flights = Files.readAllLines(Path.of(arguments[2])).stream().map(Flights::parsed).collect(Collectors.toList());
        for (ProtocolVersion version : List.of(ProtocolVersion.V5, ProtocolVersion.V4))
            for (String compression : List.of("none", "lz4"))
                try (CqlSession session = connect(arguments[0], Integer.parseInt(arguments[1]), version, compression))
                {
                    same(session.getContext().getProtocolVersion(), version);
                    new Flights(session, "java." + version.name().toLowerCase() + "_" + compression, flights).run();
                    System.out.println("ok: " + flights.size() + " rows, " + version + ", compression " + compression);
                }
    }

    static List<Object> parsed(String line)
    {
        String[] f = line.split(",");
        return List.of(f[0], f[1], Byte.valueOf(f[2]), Byte.valueOf(f[3]), Integer.valueOf(f[4]), f[5], Double.valueOf(f[6]));
    }

    static CqlSession connect(String host, int port, ProtocolVersion version, String compression)
    {
        var config = DriverConfigLoader.programmaticBuilder()
            .withString(DefaultDriverOption.PROTOCOL_VERSION, version.name())
            .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, compression)
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(60))
            .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(30))
            .build();
        return CqlSession.builder().addContactPoint(new InetSocketAddress(host, port)).withLocalDatacenter("datacenter1")
            .withConfigLoader(config).build();
    }

    Flights(CqlSession session, String table, List<List<Object>> flights)
    {
        this.session = session;
        this.table = table;
        this.flights = flights;
        for (List<Object> row : flights)
            partitions.computeIfAbsent(row.subList(0, 3), key -> new ArrayList<>()).add(row);
        for (List<List<Object>> rows : partitions.values())
            rows.sort(Comparator.comparing((List<Object> row) -> (Byte) row.get(3)).thenComparing(row -> -(Integer) row.get(4)));
    }

    void run() throws Exception
    {
        create();
        write();
        points();
        slices();
        pages();
        aggregates();
        batches();
        errors();
        traces();
    }

    void create()
    {
        session.execute("CREATE KEYSPACE IF NOT EXISTS java WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        session.execute("CREATE TABLE " + table + " (carrier text, origin text, month tinyint, day tinyint, flight int, dest text,"
            + " distance double, PRIMARY KEY ((carrier, origin, month), day, flight)) WITH CLUSTERING ORDER BY (day ASC, flight DESC)");
        same(session.checkSchemaAgreement(), true);
        // The event has updated the driver's own view of the schema.
        String name = table.split("\\.")[1];
        TableMetadata seen = session.getMetadata().getKeyspace("java").orElseThrow().getTable(name).orElseThrow();
        same(seen.getPartitionKey().stream().map(c -> c.getName().asInternal()).collect(Collectors.toList()), List.of("carrier", "origin", "month"));
        same(List.copyOf(seen.getClusteringColumns().values()), List.of(ClusteringOrder.ASC, ClusteringOrder.DESC));
    }

    void write() throws Exception
    {
        PreparedStatement insert = session.prepare("INSERT INTO " + table + " (" + COLUMNS + ") VALUES (?, ?, ?, ?, ?, ?, ?)");
        Semaphore room = new Semaphore(128);
        List<CompletionStage<AsyncResultSet>> all = new ArrayList<>();
        for (List<Object> row : flights)
        {
            room.acquire();
            all.add(session.executeAsync(insert.bind(row.toArray())).whenComplete((result, error) -> room.release()));
        }
        for (CompletionStage<AsyncResultSet> one : all)
            one.toCompletableFuture().get();
    }

    void points()
    {
        PreparedStatement select = prepare("WHERE " + KEY + " AND day = ? AND flight = ?");
        for (int i = 0; i < flights.size(); i += 7)
            same(rows(select.bind(flights.get(i).subList(0, 5).toArray())), List.of(flights.get(i)));
        same(rows(select.bind("ZZ", "JFK", (byte) 1, (byte) 1, 1)), List.of());
    }

    void slices()
    {
        List<List<Object>> partition = largest();
        List<List<Object>> expected = partition.stream().filter(row -> day(row) >= 5 && day(row) < 20).collect(Collectors.toList());
        Object[] values = {partition.get(0).get(0), partition.get(0).get(1), partition.get(0).get(2), (byte) 5, (byte) 20};
        same(rows(prepare("WHERE " + KEY + " AND day >= ? AND day < ?").bind(values)), expected);
        Collections.reverse(expected);
        same(rows(prepare("WHERE " + KEY + " AND day >= ? AND day < ? ORDER BY day DESC, flight ASC").bind(values)), expected);
        List<List<Object>> some = partition.stream().filter(row -> day(row) == 3 || day(row) == 9).collect(Collectors.toList());
        values = new Object[] {values[0], values[1], values[2], List.of((byte) 9, (byte) 3)};
        same(rows(prepare("WHERE " + KEY + " AND day IN ?").bind(values)), some);
    }

    void pages()
    {
        List<List<Object>> partition = largest();
        for (int size : new int[] {1, 10, 5000})
            same(rows(prepare("WHERE " + KEY).bind(partition.get(0).subList(0, 3).toArray()).setPageSize(size)), partition);
        same(new HashSet<>(rows(prepare("").bind().setPageSize(333))), new HashSet<>(flights));
        ResultSet first = session.execute(prepare("").bind().setPageSize(333));
        same(first.getAvailableWithoutFetching(), 333);
        // The rest is read from a page's state, in a new statement.
        PagingState state = first.getExecutionInfo().getSafePagingState();
        same(rows(prepare("").bind().setPageSize(1000).setPagingState(state)).size(), flights.size() - 333);
    }

    void aggregates()
    {
        Row row = session.execute("SELECT count(*), max(distance), min(flight) FROM " + table).one();
        same(row.getLong(0), (long) flights.size());
        same(row.getDouble(1), flights.stream().mapToDouble(flight -> (Double) flight.get(6)).max().orElseThrow());
        same(row.getInt(2), flights.stream().mapToInt(flight -> (Integer) flight.get(4)).min().orElseThrow());
    }

    void batches()
    {
        PreparedStatement update = session.prepare("UPDATE " + table + " SET dest = ? WHERE " + KEY + " AND day = ? AND flight = ?");
        PreparedStatement select = prepare("WHERE " + KEY + " AND day = ? AND flight = ?");
        for (BatchType type : List.of(BatchType.UNLOGGED, BatchType.LOGGED))
        {
            BatchStatementBuilder batch = BatchStatement.builder(type);
            for (int i = 0; i < flights.size(); i += 501)
            {
                List<Object> values = new ArrayList<>(List.of(type.toString()));
                values.addAll(flights.get(i).subList(0, 5));
                batch.addStatement(update.bind(values.toArray()));
            }
            session.execute(batch.build());
            for (int i = 0; i < flights.size(); i += 501)
                same(rows(select.bind(flights.get(i).subList(0, 5).toArray())).get(0).get(5), type.toString());
        }
    }

    void errors()
    {
        fails(SyntaxError.class, "SELEC 1");
        fails(InvalidQueryException.class, "SELECT nothing FROM " + table);
    }

    /** Checks that the driver reads the steps of a request from system_traces. */
    void traces()
    {
        SimpleStatement text = SimpleStatement.newInstance("SELECT * FROM " + table + " LIMIT 1").setTracing(true);
        QueryTrace trace = session.execute(text).getExecutionInfo().getQueryTrace();
        same(trace.getRequestType(), "Execute CQL3 query");
        same(trace.getParameters().get("query"), text.getQuery());
        same(trace.getDurationMicros() > 0 && trace.getStartedAt() > 0, true);
        same(told(trace, "Executing seq scan on "), true);
        Object[] key = flights.get(0).subList(0, 3).toArray();
        PreparedStatement select = prepare("WHERE " + KEY);
        trace = session.execute(select.bind(key).setTracing(true)).getExecutionInfo().getQueryTrace();
        same(trace.getRequestType(), "Execute CQL3 prepared query");
        same(trace.getParameters().get("bound_var_0_carrier"), "'" + key[0] + "'");
        same(told(trace, "Executing single-partition query on ") && told(trace, "Read "), true);
        same(session.execute(select.bind(key)).getExecutionInfo().getTracingId(), null);
    }

    static boolean told(QueryTrace trace, String begin)
    {
        return trace.getEvents().stream().anyMatch(event -> event.getActivity().startsWith(begin));
    }

    void fails(Class<? extends Exception> kind, String statement)
    {
        try
        {
            session.execute(statement);
        }
        catch (AllNodesFailedException | InvalidQueryException | SyntaxError error)
        {
            same(error.getClass(), kind);
            return;
        }
        throw new AssertionError(statement + " did not fail");
    }

    PreparedStatement prepare(String rest)
    {
        return session.prepare("SELECT " + COLUMNS + " FROM " + table + " " + rest);
    }

    List<List<Object>> rows(Statement<?> statement)
    {
        List<List<Object>> rows = new ArrayList<>();
        for (Row row : session.execute(statement))
            rows.add(List.of(row.getString(0), row.getString(1), row.getByte(2), row.getByte(3), row.getInt(4), row.getString(5), row.getDouble(6)));
        return rows;
    }

    List<List<Object>> largest()
    {
        return partitions.values().stream().max(Comparator.comparing(List::size)).orElseThrow();
    }

    static int day(List<Object> row)
    {
        return (Byte) row.get(3);
    }

    static void same(Object got, Object expected)
    {
        if (!Objects.equals(got, expected))
        {
            String text = String.valueOf(got), wanted = String.valueOf(expected);
            throw new AssertionError("got " + text.substring(0, Math.min(500, text.length())) + ", not "
                + wanted.substring(0, Math.min(500, wanted.length())));
        }
    }
}
