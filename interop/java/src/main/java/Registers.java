import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.servererrors.QueryValidationException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;

/** Clients that read and conditionally write eight rows, and record what they see. */
class Registers
{
    static final int KEYS = 8;

    /** One line of a history, as linearizable.py reads it. */
    static class Operation
    {
        int key, client;
        String kind = "cas";
        long begin;
        Long end, expected, written, found;
        Boolean applied;

        String json()
        {
            return String.format("{\"key\": \"%d\", \"client\": %d, \"kind\": \"%s\", \"begin\": %d, \"end\": %s, \"expected\": %s,"
                                 + " \"new\": %s, \"applied\": %s, \"found\": %s}",
                                 key, client, kind, begin, end, expected, written, applied, found);
        }
    }

    final CqlSession session;
    final PreparedStatement read, insert, update, delete;
    final String column = text("COLUMN", "v");
    final AtomicLong values = new AtomicLong();
    /** The last value that a client saw of each register; it may be old. */
    final AtomicReferenceArray<Long> latest = new AtomicReferenceArray<>(KEYS);
    long began;

    Registers(CqlSession session)
    {
        this.session = session;
        read = session.prepare(text("READ", "SELECT v FROM registers.rows WHERE k = ?"));
        insert = session.prepare(text("INSERT", "INSERT INTO registers.rows (k, v) VALUES (?, ?) IF NOT EXISTS"));
        update = session.prepare(text("UPDATE", "UPDATE registers.rows SET v = ? WHERE k = ? IF v = ?"));
        delete = session.prepare(text("DELETE", "DELETE FROM registers.rows WHERE k = ? IF v = ?"));
    }

    /** Returns a statement or the column of a register, which the environment may replace. */
    static String text(String name, String standard)
    {
        return System.getenv().getOrDefault("REGISTER_" + name, standard);
    }

    /** Runs the clients for some seconds, and writes what they saw to a file. */
    void run(int seconds, int clients, Path file) throws Exception
    {
        System.out.println("connected");
        began = System.nanoTime();
        ExecutorService threads = Executors.newFixedThreadPool(clients);
        List<Callable<List<Operation>>> work = new ArrayList<>();
        for (int i = 0; i < clients; i++)
        {
            int client = i;
            work.add(() -> {
                List<Operation> history = new ArrayList<>();
                SplittableRandom draw = new SplittableRandom(client);
                while (System.nanoTime() - began < seconds * 1_000_000_000L)
                    history.add(operate(client, draw));
                return history;
            });
        }
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(file)))
        {
            for (Future<List<Operation>> one : threads.invokeAll(work))
                for (Operation operation : one.get())
                    out.println(operation.json());
        }
        finally
        {
            threads.shutdown();
        }
    }

    /** Sends one request that suits the latest value of a random register. */
    Operation operate(int client, SplittableRandom draw) throws InterruptedException
    {
        Operation one = new Operation();
        one.client = client;
        one.key = draw.nextInt(KEYS);
        BoundStatement statement = choose(one, latest.get(one.key), draw.nextInt(10));
        one.begin = System.nanoTime() - began;
        ResultSet answer;
        try
        {
            answer = session.execute(statement);
        }
        catch (QueryValidationException e)
        {
            throw e; // the request was wrong
        }
        catch (RuntimeException e)
        {
            Thread.sleep(20); // the write may have happened
            return one;
        }
        one.end = System.nanoTime() - began;
        if (one.kind.equals("cas"))
            one.applied = answer.wasApplied(); // before the row is taken
        Row row = answer.one();
        if (one.applied != Boolean.TRUE && row != null && row.getColumnDefinitions().contains(column))
            one.found = row.get(column, Long.class);
        latest.set(one.key, one.applied == Boolean.TRUE ? one.written : one.found);
        return one;
    }

    /** Returns the request, and enters into the operation what it expects and writes. */
    BoundStatement choose(Operation one, Long expected, int choice)
    {
        if (choice < 3)
        {
            one.kind = "read";
            return read.bind(one.key).setConsistencyLevel(ConsistencyLevel.SERIAL);
        }
        if (choice == 3 || expected == null)
        {
            one.written = values.incrementAndGet();
            return insert.bind(one.key, one.written);
        }
        one.expected = expected;
        if (choice == 4)
            return delete.bind(one.key, expected);
        one.written = values.incrementAndGet();
        return update.bind(one.written, one.key, expected);
    }
}
