// Cassandra's own classes on the data of `espalier bench memtable`: prepared statements in this
// process, without sockets and without commit log. Lines that begin with RESULT are JSON, for
// espalier.
//
// usage: SimpleQuery KIND PARTITIONS READS ROUNDS VALUE_BYTES SEED [scan] [slice] [flush]
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.cql3.UntypedResultSet;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.service.CassandraDaemon;

public class SimpleQuery {
    static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    static final long FACTOR = 0xA24BAED4963EE407L;
    static final int WARM_UP = 200_000;
    static int valueBytes;

    interface Work { long run() throws Exception; }

    public static void main(String[] arguments) throws Exception {
        String kind = arguments[0];
        int partitions = Integer.parseInt(arguments[1]), reads = Integer.parseInt(arguments[2]);
        int rounds = Integer.parseInt(arguments[3]);
        valueBytes = Integer.parseInt(arguments[4]);
        new CassandraDaemon(true).activate();
        QueryProcessor.executeInternal("CREATE KEYSPACE b WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} AND durable_writes = false");
        // The compiler sees all statements before anything counts.
        create("warm", kind);
        fill("warm", Math.min(partitions, WARM_UP));
        for (long i = 0; i < Math.min(partitions, WARM_UP); i++) read("warm", i);
        QueryProcessor.executeInternal("DROP TABLE b.warm");

        create("t", kind);
        long heapBefore = heap();
        measure("write", () -> fill("t", partitions));
        ColumnFamilyStore table = Keyspace.open("b").getColumnFamilyStore("t");
        Memtable.MemoryUsage usage = Memtable.getMemoryUsage(table.getTracker().getView().getCurrentMemtable());
        System.out.printf("RESULT {\"measure\":\"memory\",\"partitions\":%d,\"heap_bytes\":%d,\"on_heap_bytes\":%d,\"off_heap_bytes\":%d}%n",
                          partitions, heap() - heapBefore, usage.ownsOnHeap, usage.ownsOffHeap);
        if (!table.getLiveSSTables().isEmpty()) fail("a memtable was flushed: it needs more heap");

        SplittableRandom random = new SplittableRandom(Long.parseLong(arguments[5]));
        for (int round = 0; round < rounds; round++) measure("read hit", () -> readSome(partitions, reads, random));
        for (int round = 0; round < rounds; round++) {
            measure("read miss", () -> {
                for (int i = 0; i < reads; i++)
                    if (read("t", partitions + random.nextLong(partitions))) fail("a row that was not written is there");
                return reads;
            });
        }
        List<String> parts = Arrays.asList(arguments).subList(6, arguments.length);
        for (int round = 0; round < rounds && parts.contains("scan"); round++) measure("scan", () -> scan(partitions));
        for (int round = 0; round < rounds && parts.contains("slice"); round++)
            measure("slice", () -> slices(partitions, reads / 100 + 1, random));
        if (parts.contains("flush")) {
            measure("flush", () -> {
                table.forceBlockingFlush(ColumnFamilyStore.FlushReason.UNIT_TESTS);
                return partitions;
            });
            if (table.getLiveSSTables().size() != 1) table.forceMajorCompaction();
            for (int round = 0; round < rounds; round++)
                measure("read SSTable", () -> readSome(partitions, reads, random));
        }
        System.exit(0);
    }

    static void create(String name, String kind) {
        QueryProcessor.executeInternal("CREATE TABLE b." + name + " (key blob PRIMARY KEY, col blob) WITH memtable = '" + kind + "' AND compression = {'enabled': false}");
    }

    static long fill(String name, int partitions) {
        String insert = "INSERT INTO b." + name + " (key, col) VALUES (?, ?)";
        for (long i = 0; i < partitions; i++) QueryProcessor.executeInternal(insert, key(i), value(i));
        return partitions;
    }

    static boolean read(String name, long i) {
        UntypedResultSet rows = QueryProcessor.executeInternal("SELECT * FROM b." + name + " WHERE key = ?", key(i));
        return !rows.isEmpty() && word(rows.one()) == i * FACTOR;
    }

    static long readSome(int partitions, int reads, SplittableRandom random) {
        for (int i = 0; i < reads; i++)
            if (!read("t", random.nextLong(partitions))) fail("a row that was written has another value or none");
        return reads;
    }

    static long word(UntypedResultSet.Row row) {
        ByteBuffer value = row.getBytes("col");
        return value.getLong(value.position());
    }

    static long scan(int partitions) {
        long rows = 0, sum = 0;
        for (UntypedResultSet.Row row : QueryProcessor.executeInternalWithPaging("SELECT * FROM b.t", 5000)) {
            rows++;
            sum += word(row);
        }
        long expected = FACTOR * ((long) partitions * (partitions - 1L) / 2);
        if (rows != partitions || sum != expected) fail("a scan gave other rows");
        return rows;
    }

    static long slices(int partitions, int count, SplittableRandom random) {
        for (int i = 0; i < count; i++) {
            long token = Murmur3Partitioner.instance.getToken(key(random.nextLong(partitions))).token;
            int rows = QueryProcessor.executeInternal("SELECT * FROM b.t WHERE token(key) > ? LIMIT 100", token).size();
            if (rows > 100) fail("a slice gave too many rows");
        }
        return count;
    }

    static ByteBuffer key(long i) {
        long hash = i * 0x9E3779B97F4A7C15L;
        hash ^= hash >>> 32;
        hash *= 0xD6E8FEB86659FD93L;
        hash ^= hash >>> 29;
        return ByteBuffer.allocate(8).putLong(0, hash);
    }

    static ByteBuffer value(long i) {
        return ByteBuffer.allocate(valueBytes).putLong(0, i * FACTOR);
    }

    /** Measures the core time of all threads: the collector and the flush have their own. */
    static void measure(String name, Work work) throws Exception {
        System.gc();
        long clock = System.nanoTime(), core = SYSTEM.getProcessCpuTime();
        long operations = work.run();
        double clockS = (System.nanoTime() - clock) / 1e9, coreS = (SYSTEM.getProcessCpuTime() - core) / 1e9;
        System.out.printf(java.util.Locale.ROOT, "RESULT {\"measure\":\"%s\",\"operations\":%d,\"clock_s\":%.9f,\"core_s\":%.9f}%n", name, operations, clockS, coreS);
    }

    static long heap() {
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }

    static void fail(String reason) {
        System.out.println("FAILED " + reason);
        System.exit(3);
    }
}
