// Random messages between nodes, as Apache Cassandra's own serializers write them, for the codec of
// crates/internode. install.sh compiles it against cassandra-all.
//
//   run.sh InternodeVectors schema               the tables of Cassandra's system keyspaces
//   run.sh InternodeVectors SEED TABLES MESSAGES
//
// The second form prints TABLES random tables, and MESSAGES random messages for each:
//
//   table ID KEYSPACE NAME
//   column NAME partition_key|clustering|static|regular MARSHAL_TYPE asc|desc
//   message VERSION HEX                      a whole message, with its header
//   answer VERSION COMMAND RESPONSE DIGEST   payloads of a read and of its answer, the answer's MD5

import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.*;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.Duration;
import org.apache.cassandra.cql3.FieldIdentifier;
import org.apache.cassandra.cql3.Operator;
import org.apache.cassandra.batchlog.Batch;
import org.apache.cassandra.db.*;
import org.apache.cassandra.db.aggregation.AggregationSpecification;
import org.apache.cassandra.db.aggregation.GroupingState;
import org.apache.cassandra.db.filter.*;
import org.apache.cassandra.db.marshal.*;
import org.apache.cassandra.db.partitions.*;
import org.apache.cassandra.db.rows.*;
import org.apache.cassandra.dht.*;
import org.apache.cassandra.exceptions.RequestFailureReason;
import org.apache.cassandra.gms.*;
import org.apache.cassandra.hints.Hint;
import org.apache.cassandra.io.IVersionedSerializer;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.net.Message;
import org.apache.cassandra.net.MessageFlag;
import org.apache.cassandra.net.NoPayload;
import org.apache.cassandra.net.ParamType;
import org.apache.cassandra.net.Verb;
import org.apache.cassandra.auth.AuthKeyspace;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.SchemaKeyspace;
import org.apache.cassandra.schema.SystemDistributedKeyspace;
import org.apache.cassandra.tracing.TraceKeyspace;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.paxos.Ballot;
import org.apache.cassandra.service.paxos.Commit;
import org.apache.cassandra.service.paxos.PrepareResponse;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.Hex;
import org.apache.cassandra.utils.TimeUUID;
import org.apache.cassandra.utils.btree.BTreeSet;

public class InternodeVectors
{
    static final int[] VERSIONS = { 12, 13 };
    static final long NOW = 1_795_000_000L;

    static Random random;
    static PrintStream out;
    static TableMetadata table;

    public static void main(String[] a) throws Exception
    {
        DatabaseDescriptor.toolInitialization(true);
        out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, "UTF-8");
        if (a[0].equals("schema"))
        {
            for (KeyspaceMetadata keyspace : Arrays.asList(SchemaKeyspace.metadata(), AuthKeyspace.metadata(), SystemDistributedKeyspace.metadata(), TraceKeyspace.metadata()))
                for (TableMetadata t : keyspace.tables)
                    describe(t);
            out.flush();
            System.exit(0);
        }
        long seed = Long.parseLong(a[0]);
        int tables = Integer.parseInt(a[1]), messages = Integer.parseInt(a[2]);
        for (int t = 0; t < tables; t++)
        {
            random = new Random((seed << 20) + t);
            table = table(t);
            for (int m = 0; m < messages; m++)
                message(VERSIONS[random.nextInt(2)]);
        }
        out.flush();
        System.exit(0);
    }

    static boolean one(int of)
    {
        return random.nextInt(of) == 0;
    }

    static <T> T any(List<T> list)
    {
        return list.get(random.nextInt(list.size()));
    }

    // ------------------------------------------------------------------ schema

    static final List<AbstractType<?>> NATIVE = Arrays.asList(
        AsciiType.instance, LongType.instance, BytesType.instance, BooleanType.instance,
        SimpleDateType.instance, DecimalType.instance, DoubleType.instance, FloatType.instance,
        InetAddressType.instance, Int32Type.instance, ShortType.instance, UTF8Type.instance,
        TimeType.instance, TimestampType.instance, TimeUUIDType.instance, ByteType.instance,
        UUIDType.instance, IntegerType.instance);

    static AbstractType<?> nativeType()
    {
        return any(NATIVE);
    }

    static UserType userType(boolean multiCell)
    {
        List<FieldIdentifier> names = new ArrayList<>();
        List<AbstractType<?>> types = new ArrayList<>();
        for (int i = 0; i < 1 + random.nextInt(3); i++)
        {
            names.add(FieldIdentifier.forUnquoted("f" + i));
            types.add(frozenType(1));
        }
        return new UserType("ks", ByteBufferUtil.bytes("udt" + random.nextInt(9)), names, types, multiCell);
    }

    static <T> AbstractType<?> vector(AbstractType<T> element)
    {
        return VectorType.getInstance(element, 1 + random.nextInt(4));
    }

    static AbstractType<?> frozenType(int depth)
    {
        switch (depth > 2 ? 0 : random.nextInt(10))
        {
            case 4: return ListType.getInstance(frozenType(depth + 1), false);
            case 5: return SetType.getInstance(frozenType(depth + 1), false);
            case 6: return MapType.getInstance(frozenType(depth + 1), frozenType(depth + 1), false);
            case 7: return new TupleType(Arrays.asList(frozenType(depth + 1), frozenType(depth + 1)));
            case 8: return userType(false);
            case 9: return one(2) ? vector(FloatType.instance) : vector(nativeType());
            default: return nativeType();
        }
    }

    static AbstractType<?> cellType()
    {
        switch (random.nextInt(8))
        {
            case 0: return ListType.getInstance(frozenType(1), true);
            case 1: return SetType.getInstance(nativeType(), true);
            case 2: return MapType.getInstance(nativeType(), frozenType(1), true);
            case 3: return userType(true);
            case 4: return DurationType.instance;
            default: return frozenType(0);
        }
    }

    static TableMetadata table(int number)
    {
        TableId id = TableId.fromUUID(new UUID(random.nextLong() & ~0xF000L | 0x4000L, random.nextLong() >>> 2 | 1L << 63));
        TableMetadata.Builder b = TableMetadata.builder("ks", "t" + number, id).partitioner(Murmur3Partitioner.instance);
        boolean counters = one(10);
        int keys = one(2) ? 1 : 1 + random.nextInt(3), clusterings = one(40) ? 40 : random.nextInt(4);
        for (int i = 0; i < keys; i++)
        {
            AbstractType<?> type = one(4) ? frozenType(0) : nativeType();
            b.addPartitionKeyColumn("k" + i, type);
        }
        for (int i = 0; i < clusterings; i++)
        {
            AbstractType<?> type = one(4) ? frozenType(0) : nativeType();
            boolean reversed = one(3);
            b.addClusteringColumn("c" + i, reversed ? ReversedType.getInstance(type) : type);
        }
        int statics = clusterings == 0 ? 0 : one(20) ? 70 : random.nextInt(4);
        int regulars = one(15) ? 63 + random.nextInt(10) : random.nextInt(7);
        for (int i = 0; i < statics + regulars; i++)
        {
            boolean isStatic = i < statics;
            AbstractType<?> type = counters ? CounterColumnType.instance : cellType();
            String name = (one(30) ? "ä" : one(2) ? "v" : "Z") + i;
            if (isStatic) b.addStaticColumn(name, type); else b.addRegularColumn(name, type);
        }
        TableMetadata made = b.isCounter(counters).build();
        describe(made);
        return made;
    }

    static void describe(TableMetadata t)
    {
        out.println("table " + t.id.asUUID() + " " + t.keyspace + " " + t.name);
        List<ColumnMetadata> columns = new ArrayList<>(t.partitionKeyColumns());
        columns.addAll(t.clusteringColumns());
        t.staticColumns().forEach(columns::add);
        t.regularColumns().forEach(columns::add);
        for (ColumnMetadata column : columns)
            out.println("column " + column.name + " " + column.kind.toString().toLowerCase(Locale.ROOT) + " " +
                        column.type.unwrap() + (column.type.isReversed() ? " desc" : " asc"));
    }

    // ------------------------------------------------------------------ values

    static byte[] bytes(int length)
    {
        byte[] b = new byte[length];
        random.nextBytes(b);
        return b;
    }

    static String text()
    {
        StringBuilder s = new StringBuilder();
        int length = one(20) ? random.nextInt(300) : random.nextInt(10);
        for (int i = 0; i < length; i++)
            s.append((char) ('a' + random.nextInt(26)));
        return s.toString();
    }

    static ByteBuffer value(AbstractType<?> type)
    {
        type = type.unwrap();
        if (type == AsciiType.instance || type == UTF8Type.instance) return ByteBufferUtil.bytes(text());
        if (type == BytesType.instance) return ByteBuffer.wrap(bytes(random.nextInt(40)));
        if (type == BooleanType.instance) return ByteBuffer.wrap(new byte[]{ (byte) random.nextInt(2) });
        if (type == ByteType.instance) return ByteBuffer.wrap(bytes(1));
        if (type == ShortType.instance) return ByteBuffer.wrap(bytes(2));
        if (type == Int32Type.instance || type == FloatType.instance || type == SimpleDateType.instance)
            return one(3) ? ByteBufferUtil.bytes(random.nextInt(5)) : ByteBuffer.wrap(bytes(4));
        if (type == LongType.instance || type == DoubleType.instance || type == TimestampType.instance)
            return one(3) ? ByteBufferUtil.bytes((long) random.nextInt(5)) : ByteBuffer.wrap(bytes(8));
        if (type == TimeType.instance) return ByteBufferUtil.bytes((long) random.nextInt(Integer.MAX_VALUE));
        if (type == UUIDType.instance) return ByteBufferUtil.bytes(UUID.nameUUIDFromBytes(bytes(8)));
        if (type == TimeUUIDType.instance) return timeUuid().toBytes();
        if (type == InetAddressType.instance) return ByteBuffer.wrap(bytes(one(2) ? 4 : 16));
        if (type == IntegerType.instance) return IntegerType.instance.decompose(new BigInteger(random.nextInt(90), random).negate());
        if (type == DecimalType.instance)
            return DecimalType.instance.decompose(new BigDecimal(new BigInteger(random.nextInt(90), random), random.nextInt(20) - 10));
        if (type == DurationType.instance)
            return DurationType.instance.decompose(Duration.newInstance(random.nextInt(99), random.nextInt(99), random.nextInt(9999)));
        if (type == CounterColumnType.instance) return counter();
        if (type instanceof ListType) return frozen(((ListType<?>) type).getElementsType(), null);
        if (type instanceof SetType) return frozen(((SetType<?>) type).getElementsType(), null);
        if (type instanceof MapType) return frozen(((MapType<?, ?>) type).getKeysType(), ((MapType<?, ?>) type).getValuesType());
        if (type instanceof TupleType)
        {
            List<byte[]> parts = new ArrayList<>();
            int length = 0;
            for (AbstractType<?> part : ((TupleType) type).allTypes())
            {
                byte[] b = one(5) ? null : ByteBufferUtil.getArray(value(part));
                parts.add(b);
                length += 4 + (b == null ? 0 : b.length);
            }
            ByteBuffer tuple = ByteBuffer.allocate(length);
            for (byte[] b : parts)
                if (b == null) tuple.putInt(-1); else tuple.putInt(b.length).put(b);
            tuple.flip();
            return tuple;
        }
        if (type instanceof VectorType)
        {
            VectorType<?> vector = (VectorType<?>) type;
            try (DataOutputBuffer b = new DataOutputBuffer())
            {
                for (int i = 0; i < vector.dimension; i++)
                {
                    ByteBuffer element = value(vector.elementType);
                    if (!vector.elementType.isValueLengthFixed()) b.writeUnsignedVInt32(element.remaining());
                    b.write(element);
                }
                return b.asNewBuffer();
            }
            catch (Exception e)
            {
                throw new RuntimeException(e);
            }
        }
        throw new AssertionError(type.toString());
    }

    static ByteBuffer frozen(AbstractType<?> left, AbstractType<?> right)
    {
        int count = random.nextInt(4);
        List<byte[][]> elements = new ArrayList<>();
        for (int i = 0; i < count; i++)
        {
            byte[] first = ByteBufferUtil.getArray(value(left));
            elements.add(right == null ? new byte[][]{ first } : new byte[][]{ first, ByteBufferUtil.getArray(value(right)) });
        }
        // CONTAINS KEY of Cassandra requires that the keys of a map are in order.
        if (right != null)
            elements.sort((a, b) -> left.compare(ByteBuffer.wrap(a[0]), ByteBuffer.wrap(b[0])));
        int length = 4;
        for (byte[][] element : elements)
            for (byte[] part : element)
                length += 4 + part.length;
        ByteBuffer b = ByteBuffer.allocate(length).putInt(count);
        for (byte[][] element : elements)
            for (byte[] part : element)
                b.putInt(part.length).put(part);
        b.flip();
        return b;
    }

    /** A counter context of global, local and remote shards; the codec keeps it as bytes. */
    static ByteBuffer counter()
    {
        int shards = 1 + random.nextInt(3), heads = random.nextInt(shards + 1);
        ByteBuffer b = ByteBuffer.allocate(2 + 2 * heads + 32 * shards).putShort((short) heads);
        for (int i = 0; i < heads; i++)
            b.putShort((short) (i | (one(2) ? 0x8000 : 0)));
        b.put(bytes(32 * shards));
        b.flip();
        return b;
    }

    static TimeUUID timeUuid()
    {
        return TimeUUID.atUnixMicrosWithLsb(timestamp(), random.nextLong());
    }

    static long timestamp()
    {
        switch (random.nextInt(12))
        {
            // Later than deletions of rows and columns, because Cassandra drops the cells that such
            // a deletion covers.
            case 0: return 3 + random.nextInt(5);
            case 1: return 1_442_880_000_000_000L + random.nextInt(9);
            default: return NOW * 1_000_000 + random.nextInt(1000);
        }
    }

    /**
     * A second of deletion or expiry. Cassandra announces a payload that is too short if two seconds
     * of an update are 2^31 apart, or if a multi-cell column without deletion is beside one with a
     * deletion and all seconds are after 2038. Its own nodes cannot read such messages.
     */
    static long seconds()
    {
        boolean isComplex = false;
        for (ColumnMetadata column : table.regularAndStaticColumns())
            isComplex |= column.isComplex();
        switch (random.nextInt(12))
        {
            case 0: return 1_000_000_000L + random.nextInt(9);
            case 1: return isComplex ? NOW : 3_100_000_000L + random.nextInt(9);
            case 2: return isComplex ? NOW : 2_500_000_000L + random.nextInt(9);
            default: return NOW + random.nextInt(1000);
        }
    }

    static DeletionTime deletion()
    {
        return DeletionTime.build(timestamp(), seconds());
    }

    // ------------------------------------------------------------------ rows

    static DecoratedKey key()
    {
        List<ColumnMetadata> columns = table.partitionKeyColumns();
        if (columns.size() == 1)
        {
            ByteBuffer key;
            do key = value(columns.get(0).type); while (!key.hasRemaining());
            return table.partitioner.decorateKey(key);
        }
        ByteBuffer[] parts = new ByteBuffer[columns.size()];
        for (int i = 0; i < parts.length; i++)
            parts[i] = value(columns.get(i).type);
        return table.partitioner.decorateKey(CompositeType.build(ByteBufferAccessor.instance, parts));
    }

    static ByteBuffer[] clusteringValues(int count)
    {
        ByteBuffer[] values = new ByteBuffer[count];
        for (int i = 0; i < count; i++)
        {
            AbstractType<?> type = table.clusteringColumns().get(i).type;
            values[i] = one(15) && type.unwrap().isEmptyValueMeaningless() ? ByteBufferUtil.EMPTY_BYTE_BUFFER : value(type);
        }
        return values;
    }

    static Clustering<?> clustering()
    {
        int size = table.clusteringColumns().size();
        return size == 0 ? Clustering.EMPTY : Clustering.make(clusteringValues(size));
    }

    static Cell<?> cell(ColumnMetadata column, AbstractType<?> type, LivenessInfo row, CellPath path)
    {
        long timestamp = !row.isEmpty() && one(2) ? row.timestamp() : timestamp();
        if (column.type.isCounter())
            return one(8) ? BufferCell.tombstone(column, timestamp, seconds(), path)
                          : new BufferCell(column, timestamp, 0, Cell.NO_DELETION_TIME, counter(), path);
        ByteBuffer value = type == null || one(12) && !column.isComplex() && column.type.isEmptyValueMeaningless()
                         ? ByteBufferUtil.EMPTY_BYTE_BUFFER : value(type);
        switch (random.nextInt(5))
        {
            case 0: return BufferCell.tombstone(column, timestamp, seconds(), path);
            case 1: return new BufferCell(column, timestamp, 1 + random.nextInt(99), NOW + random.nextInt(9), value, path);
            case 2:
                if (row.isExpiring() && row.ttl() != Integer.MAX_VALUE)
                    return new BufferCell(column, timestamp, row.ttl(), row.localExpirationTime(), value, path);
            default: return new BufferCell(column, timestamp, 0, Cell.NO_DELETION_TIME, value, path);
        }
    }

    static LivenessInfo liveness()
    {
        switch (random.nextInt(5))
        {
            case 0: return LivenessInfo.EMPTY;
            case 1: return LivenessInfo.withExpirationTime(timestamp(), 1 + random.nextInt(99), NOW + random.nextInt(9));
            case 2: if (one(4)) return LivenessInfo.withExpirationTime(timestamp(), Integer.MAX_VALUE, NOW);
            default: return LivenessInfo.create(timestamp(), NOW);
        }
    }

    static Row row(Clustering<?> clustering, Columns columns)
    {
        Row.Builder b = BTreeRow.unsortedBuilder();
        b.newRow(clustering);
        boolean isStatic = clustering == Clustering.STATIC_CLUSTERING;
        LivenessInfo live = isStatic ? LivenessInfo.EMPTY : liveness();
        b.addPrimaryKeyLivenessInfo(live);
        if (!isStatic && one(5))
            b.addRowDeletion(new Row.Deletion(DeletionTime.build(random.nextInt(3), seconds()), one(3)));
        boolean all = one(3);
        int of = 1 + random.nextInt(columns.size() > 20 ? 40 : 3);
        for (ColumnMetadata column : columns)
        {
            if (!all && !one(of)) continue;
            if (!column.isComplex())
            {
                b.addCell(cell(column, column.type, live, null));
                continue;
            }
            if (one(2)) b.addComplexDeletion(column, DeletionTime.build(random.nextInt(3), seconds()));
            AbstractType<?> type = column.type;
            for (int i = random.nextInt(4); i > 0; i--)
            {
                if (type instanceof ListType)
                    b.addCell(cell(column, ((ListType<?>) type).getElementsType(), live, CellPath.create(timeUuid().toBytes())));
                else if (type instanceof SetType)
                    b.addCell(cell(column, null, live, CellPath.create(value(((SetType<?>) type).getElementsType()))));
                else if (type instanceof MapType)
                    b.addCell(cell(column, ((MapType<?, ?>) type).getValuesType(), live, CellPath.create(value(((MapType<?, ?>) type).getKeysType()))));
                else
                {
                    UserType udt = (UserType) type;
                    int field = random.nextInt(udt.size());
                    b.addCell(cell(column, udt.type(field), live, CellPath.create(ByteBufferUtil.bytes((short) field))));
                }
            }
        }
        return b.build();
    }

    static Slice slice()
    {
        int size = table.clusteringColumns().size();
        for (int i = 0; i < 20; i++)
        {
            ClusteringBound<?> start = BufferClusteringBound.create(one(2) ? ClusteringPrefix.Kind.INCL_START_BOUND : ClusteringPrefix.Kind.EXCL_START_BOUND, clusteringValues(random.nextInt(size + 1)));
            ClusteringBound<?> end = BufferClusteringBound.create(one(2) ? ClusteringPrefix.Kind.INCL_END_BOUND : ClusteringPrefix.Kind.EXCL_END_BOUND, clusteringValues(random.nextInt(size + 1)));
            Slice slice = Slice.make(start, end);
            if (!slice.isEmpty(table.comparator)) return slice;
        }
        return Slice.ALL;
    }

    static PartitionUpdate update(DecoratedKey key)
    {
        if (one(20)) return PartitionUpdate.emptyUpdate(table, key);
        if (one(20)) return PartitionUpdate.fullPartitionDelete(table, key, timestamp(), NOW);
        PartitionUpdate.Builder b = new PartitionUpdate.Builder(table, key, table.regularAndStaticColumns(), 4);
        if (one(6)) b.addPartitionDeletion(DeletionTime.build(random.nextInt(3), seconds()));
        if (!table.staticColumns().isEmpty() && one(2))
            b.add(row(Clustering.STATIC_CLUSTERING, table.staticColumns()));
        int rows = one(10) ? random.nextInt(30) : random.nextInt(4);
        for (int i = 0; i < rows; i++)
            b.add(row(clustering(), table.regularColumns()));
        if (!table.clusteringColumns().isEmpty() && one(2))
            for (int i = random.nextInt(4); i > 0; i--)
                b.add(new RangeTombstone(slice(), deletion()));
        return b.build();
    }

    static Mutation mutation()
    {
        return new Mutation(update(key()));
    }

    // ------------------------------------------------------------------ reads

    static ColumnFilter columnFilter()
    {
        List<ColumnMetadata> columns = new ArrayList<>();
        table.regularAndStaticColumns().iterator().forEachRemaining(columns::add);
        ColumnFilter.Builder b;
        switch (random.nextInt(4))
        {
            case 0: return ColumnFilter.all(table);
            case 1: b = ColumnFilter.selectionBuilder(); break;
            case 2: b = ColumnFilter.allRegularColumnsBuilder(table, true); break;
            default: b = ColumnFilter.allRegularColumnsBuilder(table, false);
        }
        for (ColumnMetadata column : columns)
        {
            if (!one(2)) continue;
            if (!column.isComplex() || one(2)) { b.add(column); continue; }
            AbstractType<?> type = column.type;
            AbstractType<?> path = type instanceof ListType ? TimeUUIDType.instance : type instanceof SetType ? ((SetType<?>) type).getElementsType()
                                 : type instanceof MapType ? ((MapType<?, ?>) type).getKeysType() : null;
            if (path == null) b.select(column, CellPath.create(ByteBufferUtil.bytes((short) random.nextInt(((UserType) type).size()))));
            else if (one(2)) b.select(column, CellPath.create(value(path)));
            else
            {
                ByteBuffer left = value(path), right = value(path);
                boolean ordered = path.compare(left, right) <= 0;
                // Cassandra has no form for a slice without a bound on one side.
                b.slice(column, CellPath.create(ordered ? left : right), CellPath.create(ordered ? right : left));
            }
        }
        return b.build();
    }

    static RowFilter rowFilter()
    {
        if (one(2)) return RowFilter.none();
        RowFilter filter = RowFilter.create(one(2));
        List<ColumnMetadata> columns = new ArrayList<>(table.columns());
        for (int i = 1 + random.nextInt(3); i > 0; i--)
        {
            ColumnMetadata column = any(columns);
            if (column.type instanceof MapType && one(2))
            {
                MapType<?, ?> map = (MapType<?, ?>) column.type;
                filter.addMapEquality(column, value(map.getKeysType()), Operator.EQ, value(map.getValuesType()));
            }
            else
                filter.add(column, any(Arrays.asList(Operator.values())), value(column.type));
        }
        return filter;
    }

    static DataLimits limits() throws Exception
    {
        int limit = one(3) ? Integer.MAX_VALUE : 1 + random.nextInt(5000), per = one(2) ? Integer.MAX_VALUE : 1 + random.nextInt(500);
        int rows = 1 + random.nextInt(500);
        switch (random.nextInt(7))
        {
            case 0: return DataLimits.distinctLimits(limit);
            case 1: return DataLimits.cqlLimits(limit, per).forPaging(1 + random.nextInt(300), key().getKey(), random.nextInt(200));
            case 2:
            {
                GroupingState state = one(2) ? GroupingState.EMPTY_STATE : new GroupingState(key().getKey(), one(2) ? null : clustering());
                return DataLimits.groupByLimits(limit, per, rows, grouping()).forGroupByInternalPaging(state);
            }
            case 3:
            {
                Class<?> paging = Class.forName("org.apache.cassandra.db.filter.DataLimits$CQLGroupByPagingLimits");
                ByteBuffer last = key().getKey();
                GroupingState state = one(2) ? GroupingState.EMPTY_STATE : new GroupingState(last, one(2) ? null : clustering());
                return (DataLimits) make(paging, limit, per, rows, grouping(), state, last, random.nextInt(100));
            }
            default: return DataLimits.cqlLimits(limit, per);
        }
    }

    static AggregationSpecification grouping()
    {
        return one(3) ? AggregationSpecification.AGGREGATE_EVERYTHING
                      : AggregationSpecification.aggregatePkPrefixFactory(table.comparator, random.nextInt(table.clusteringColumns().size() + 1)).newInstance(null);
    }

    static ClusteringIndexFilter clusteringFilter()
    {
        boolean reversed = one(3);
        if (one(2))
        {
            BTreeSet.Builder<Clustering<?>> names = BTreeSet.builder(table.comparator);
            for (int i = random.nextInt(4); i > 0; i--)
                names.add(clustering());
            return new ClusteringIndexNamesFilter(names.build(), reversed);
        }
        if (one(5)) return new ClusteringIndexSliceFilter(one(3) ? Slices.NONE : Slices.ALL, reversed);
        Slices.Builder b = new Slices.Builder(table.comparator);
        for (int i = 1 + random.nextInt(3); i > 0; i--)
            b.add(slice());
        return new ClusteringIndexSliceFilter(b.build(), reversed);
    }

    static PartitionPosition position()
    {
        Token token = table.partitioner.getRandomToken(random);
        switch (random.nextInt(4))
        {
            case 0: return key();
            case 1: return token.minKeyBound();
            case 2: return table.partitioner.getMinimumToken().minKeyBound();
            default: return token.maxKeyBound();
        }
    }

    static DataRange dataRange()
    {
        PartitionPosition left = position(), right = position();
        if (left.compareTo(right) > 0 && !right.isMinimum()) { PartitionPosition swap = left; left = right; right = swap; }
        AbstractBounds<PartitionPosition> bounds;
        if (left.equals(right)) bounds = new Bounds<>(left, right);
        else
            switch (random.nextInt(4))
            {
                case 0: bounds = new Bounds<>(left, right); break;
                case 1: bounds = new IncludingExcludingBounds<>(left, right); break;
                case 2: bounds = new ExcludingBounds<>(left, right); break;
                default: bounds = new Range<>(left, right);
            }
        DataRange range = new DataRange(bounds, clusteringFilter());
        return one(3) ? range.forPaging(bounds, table.comparator, clustering(), one(2)) : range;
    }

    static ReadCommand command(ColumnFilter columns) throws Exception
    {
        long now = one(5) ? 2_500_000_000L : NOW;
        ReadCommand command = one(2)
            ? SinglePartitionReadCommand.create(table, now, columns, rowFilter(), limits(), key(), clusteringFilter())
            : PartitionRangeReadCommand.create(table, now, columns, rowFilter(), limits(), dataRange());
        if (one(4))
        {
            java.lang.reflect.Method copy = ReadCommand.class.getDeclaredMethod("copyAsDigestQuery");
            copy.setAccessible(true);
            command = ((ReadCommand) copy.invoke(command)).setDigestVersion(one(2) ? 12 : 13);
        }
        return command;
    }

    /** Prints the answer of a replica, with the digest that another replica sends for it. */
    static void answer(int version) throws Exception
    {
        ColumnFilter columns = columnFilter();
        ReadCommand command = command(columns);
        List<PartitionUpdate> updates = new ArrayList<>();
        for (int i = random.nextInt(4); i > 0; i--)
            updates.add(update(key()));
        boolean reversed = one(3);
        boolean fetched = columns.fetchesAllColumns(true) && columns.fetchesAllColumns(false) && one(2);
        ReadResponse response = (ReadResponse) noOp("createDataResponse", partitions(updates, columns, fetched, reversed), command);
        // The digest is of the message. In memory, a row with a deletion of a column whose name
        // begins beyond ASCII has another digest, because Cassandra does not write this deletion.
        ByteBuffer digest = response.digest(command);
        out.println("answer " + version + " " + hex(ReadCommand.serializer, command, version) + " " +
                    hex(ReadResponse.serializer, response, version) + " " + ByteBufferUtil.bytesToHex(digest));
        if (one(5)) send(Verb.READ_RSP, ReadResponse.createDigestResponse(partitions(updates, columns, fetched, reversed), command), version);
    }

    static Object noOp(String method, UnfilteredPartitionIterator data, ReadCommand command) throws Exception
    {
        Class<?> info = Class.forName("org.apache.cassandra.db.RepairedDataInfo");
        java.lang.reflect.Field none = info.getDeclaredField("NO_OP_REPAIRED_DATA_INFO");
        none.setAccessible(true);
        java.lang.reflect.Method create = ReadResponse.class.getDeclaredMethod(method, UnfilteredPartitionIterator.class, ReadCommand.class, info);
        create.setAccessible(true);
        return create.invoke(null, data, command, none.get(null));
    }

    /** Returns partitions with the fetched columns or, if `all`, all columns of each update. */
    static UnfilteredPartitionIterator partitions(List<PartitionUpdate> updates, ColumnFilter columns, boolean all, boolean reversed)
    {
        Iterator<PartitionUpdate> iterator = updates.iterator();
        return new AbstractUnfilteredPartitionIterator()
        {
            public TableMetadata metadata() { return table; }
            UnfilteredRowIterator next;

            // A replica leaves out partitions without content.
            public boolean hasNext()
            {
                while (next == null && iterator.hasNext())
                {
                    PartitionUpdate update = iterator.next();
                    UnfilteredRowIterator rows = all && !reversed ? update.unfilteredIterator() : update.unfilteredIterator(columns, Slices.ALL, reversed);
                    if (!rows.isEmpty()) next = rows;
                }
                return next != null;
            }

            public UnfilteredRowIterator next()
            {
                hasNext();
                UnfilteredRowIterator rows = next;
                next = null;
                return rows;
            }
        };
    }

    // ------------------------------------------------------------------ gossip

    static InetAddressAndPort address() throws Exception
    {
        return InetAddressAndPort.getByAddressOverrideDefaults(InetAddress.getByAddress(bytes(one(3) ? 16 : 4)), random.nextInt(65536));
    }

    static EndpointState endpointState() throws Exception
    {
        EndpointState state = new EndpointState(new HeartBeatState(random.nextInt(), random.nextInt()));
        for (ApplicationState kind : ApplicationState.values())
        {
            if (!one(2)) continue;
            String value = kind == ApplicationState.TOKENS
                ? new VersionedValue.VersionedValueFactory(Murmur3Partitioner.instance).tokens(Arrays.asList(Murmur3Partitioner.instance.getRandomToken(random), Murmur3Partitioner.instance.getRandomToken(random))).value
                : one(9) ? "\u0000\u00e4\u20ac\ud83d\ude00" : text();
            state.addApplicationState(kind, VersionedValue.unsafeMakeVersionedValue(value, random.nextInt()));
        }
        return state;
    }

    static Map<InetAddressAndPort, EndpointState> states() throws Exception
    {
        Map<InetAddressAndPort, EndpointState> states = new HashMap<>();
        for (int i = random.nextInt(4); i > 0; i--)
            states.put(address(), endpointState());
        return states;
    }

    static List<GossipDigest> digests() throws Exception
    {
        List<GossipDigest> digests = new ArrayList<>();
        for (int i = random.nextInt(4); i > 0; i--)
            digests.add((GossipDigest) make(GossipDigest.class, address(), random.nextInt(), random.nextInt()));
        return digests;
    }

    // ------------------------------------------------------------------ messages

    static void message(int version) throws Exception
    {
        switch (random.nextInt(26))
        {
            case 0: send(Verb.READ_REPAIR_REQ, mutation(), version); break;
            case 1: send(Verb.HINT_REQ, make(Class.forName("org.apache.cassandra.hints.HintMessage"), UUID.nameUUIDFromBytes(bytes(4)), Hint.create(mutation(), NOW * 1000, random.nextInt(900000))), version); break;
            case 2: send(Verb.BATCH_STORE_REQ, Batch.createLocal(timeUuid(), NOW * 1000000, Arrays.asList(mutation(), mutation())), version); break;
            case 3: send(Verb.BATCH_REMOVE_REQ, timeUuid(), version); break;
            case 4: send(Verb.COUNTER_MUTATION_REQ, new CounterMutation(mutation(), any(Arrays.asList(ConsistencyLevel.values()))), version); break;
            case 5: send(Verb.TRUNCATE_REQ, new TruncateRequest("ks", text()), version); send(Verb.TRUNCATE_RSP, new TruncateResponse("ks", text(), one(2)), version); break;
            case 6: send(Verb.GOSSIP_DIGEST_SYN, new GossipDigestSyn("Test Cluster", "org.apache.cassandra.dht.Murmur3Partitioner", digests()), version); break;
            case 7: send(Verb.GOSSIP_DIGEST_ACK, make(GossipDigestAck.class, digests(), states()), version); break;
            case 8: send(Verb.GOSSIP_DIGEST_ACK2, make(GossipDigestAck2.class, states()), version); break;
            case 9: send(Verb.GOSSIP_SHUTDOWN, new GossipShutdown(endpointState()), version); break;
            case 10: send(any(Arrays.asList(Verb.ECHO_REQ, Verb.ECHO_RSP, Verb.MUTATION_RSP, Verb.SCHEMA_PULL_REQ, Verb.SCHEMA_VERSION_REQ, Verb.HINT_RSP)), NoPayload.noPayload, version); break;
            case 11: send(Verb.SCHEMA_PUSH_REQ, Arrays.asList(mutation(), mutation()), version); break;
            case 12: send(Verb.SCHEMA_VERSION_RSP, UUID.nameUUIDFromBytes(bytes(4)), version); break;
            case 13: send(Verb.PAXOS_PREPARE_REQ, Commit.newPrepare(key(), table, ballot()), version); break;
            case 14: send(one(2) ? Verb.PAXOS_PROPOSE_REQ : Verb.PAXOS_PROPOSE_REQ, Commit.newProposal(ballot(), update(key())), version); break;
            case 15:
            {
                DecoratedKey key = key();
                send(Verb.PAXOS_PREPARE_RSP, new PrepareResponse(one(2), new Commit(ballot(), update(key)), new Commit(ballot(), update(key))), version);
                send(Verb.PAXOS_PROPOSE_RSP, one(2), version);
                break;
            }
            case 16: send(Verb.FAILURE_RSP, any(Arrays.asList(RequestFailureReason.values())), version); break;
            case 17: case 18: case 19:
            {
                ReadCommand command = command(columnFilter());
                send(command instanceof SinglePartitionReadCommand ? Verb.READ_REQ : Verb.RANGE_REQ, command, version);
                break;
            }
            case 20: case 21: case 22: answer(version); break;
            default: send(Verb.MUTATION_REQ, mutation(), version);
        }
    }

    static Ballot ballot()
    {
        return Ballot.atUnixMicrosWithLsb(NOW * 1000000 + random.nextInt(1000), random.nextLong(), one(2) ? Ballot.Flag.GLOBAL : Ballot.Flag.LOCAL);
    }

    static void send(Verb verb, Object payload, int version) throws Exception
    {
        if (verb == Verb.FAILURE_RSP)
        {
            // A failure expires with its request, so the builder has no time for it.
            java.lang.reflect.Method failure = Message.class.getDeclaredMethod("failureResponse", long.class, long.class, RequestFailureReason.class);
            failure.setAccessible(true);
            print(version, (Message<?>) failure.invoke(null, random.nextInt(500), System.nanoTime() + random.nextInt(Integer.MAX_VALUE), payload));
            return;
        }
        Message.Builder<Object> b = Message.builder(verb, payload).withId(one(3) ? random.nextLong() >>> 1 : random.nextInt(500)).from(address())
            .withCreatedAt(System.nanoTime()).withExpiresAt(System.nanoTime() + random.nextInt(Integer.MAX_VALUE));
        if (one(3)) b.withFlag(MessageFlag.CALL_BACK_ON_FAILURE);
        if (one(5)) b.withFlag(MessageFlag.TRACK_WARNINGS);
        if (one(5)) b.withParam(ParamType.RESPOND_TO, address());
        if (one(5)) b.withParam(ParamType.TRACE_SESSION, timeUuid()).withParam(ParamType.TOMBSTONE_WARNING, random.nextInt(1000));
        if (one(9)) b.withParam(ParamType.FORWARD_TO, make(Class.forName("org.apache.cassandra.net.ForwardingInfo"), Arrays.asList(address(), address()), new long[]{ random.nextInt(99), random.nextInt(9999) }));
        if (one(9)) b.withParam(ParamType.LOCAL_READ_SIZE_FAIL, random.nextLong());
        if (one(9)) b.withCustomParam("extension", bytes(5));
        print(version, b.build());
    }

    static void print(int version, Message<?> message) throws Exception
    {
        try (DataOutputBuffer buffer = new DataOutputBuffer())
        {
            Message.serializer.serialize(message, buffer, version);
            out.println("message " + version + " " + Hex.bytesToHex(buffer.toByteArray()));
        }
    }

    static <T> String hex(IVersionedSerializer<T> serializer, T payload, int version) throws Exception
    {
        try (DataOutputBuffer buffer = new DataOutputBuffer())
        {
            serializer.serialize(payload, buffer, version);
            return Hex.bytesToHex(buffer.toByteArray());
        }
    }

    /** Calls the constructor, public or not, that has as many parameters as `arguments`. */
    static Object make(Class<?> of, Object... arguments) throws Exception
    {
        for (Constructor<?> constructor : of.getDeclaredConstructors())
        {
            if (constructor.getParameterCount() != arguments.length) continue;
            constructor.setAccessible(true);
            try { return constructor.newInstance(arguments); }
            catch (IllegalArgumentException e) { /* another constructor */ }
        }
        throw new IllegalArgumentException(of.getName());
    }
}
