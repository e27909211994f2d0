// Random reads of random tables, with the answers that Apache Cassandra's own classes make of the
// rows, for the replica of crates/internode. install.sh compiles it against cassandra-all.
//
//   run.sh ReadVectors SEED TABLES READS
//
// prints TABLES random tables, and READS reads of each:
//
//   table ID KEYSPACE NAME, column ...       see InternodeVectors.java
//   write HEX                                the payload of a mutation
//   answer VERSION COMMAND RESPONSE DIGEST   payloads of a read and of its answer, and the digest
//                                            that a replica sends instead
//
// The rows are those of Cassandra's memtable. The steps between rows and answer are those of
// ReadCommand.executeLocally, which cannot be called because it needs a running node.

import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.function.LongPredicate;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.Operator;
import org.apache.cassandra.db.*;
import org.apache.cassandra.db.aggregation.AggregationSpecification;
import org.apache.cassandra.db.aggregation.GroupingState;
import org.apache.cassandra.db.filter.*;
import org.apache.cassandra.db.marshal.*;
import org.apache.cassandra.db.partitions.*;
import org.apache.cassandra.db.rows.*;
import org.apache.cassandra.db.transform.RTBoundCloser;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.dht.*;
import org.apache.cassandra.index.transactions.UpdateTransaction;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.Hex;
import org.apache.cassandra.utils.btree.BTreeSet;
import org.apache.cassandra.utils.concurrent.ImmediateFuture;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.apache.cassandra.utils.memory.HeapPool;
import org.apache.cassandra.utils.memory.MemtableAllocator;
import org.apache.cassandra.io.util.DataOutputBuffer;

public class ReadVectors extends InternodeVectors
{
    static final int GRACE = 864000, MOMENTS = 40;

    static List<DecoratedKey> keys;
    static List<ByteBuffer[]> clusterings;
    static NavigableMap<DecoratedKey, AtomicBTreePartition> content;
    /**
     * Whether the reader of the vectors may flush the table. Two range deletions may have the same moment and
     * different seconds only in a table that is not flushed: a memtable keeps the first of them, a merge of a
     * memtable with a file the later.
     */
    static boolean isFlushed;
    /** The seconds of deletions by their moment, because the deletions of one batch share both. */
    static long[] seconds = new long[MOMENTS];

    static final OpOrder order = new OpOrder();
    static final MemtableAllocator allocator = new HeapPool(Long.MAX_VALUE, 1, () -> ImmediateFuture.success(true)).newAllocator("reads");

    public static void main(String[] a) throws Exception
    {
        DatabaseDescriptor.toolInitialization(true);
        out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, "UTF-8");
        long seed = Long.parseLong(a[0]);
        for (int t = 0; t < Integer.parseInt(a[1]); t++)
        {
            random = new Random((seed << 20) + t);
            table = randomTable(t);
            isFlushed = t % 2 == 0;
            describe(table);
            fill();
            for (int r = 0; r < Integer.parseInt(a[2]); r++)
                while (!read(VERSIONS[random.nextInt(2)]));
        }
        out.flush();
        System.exit(0);
    }

    static AbstractType<?> multiCell()
    {
        switch (random.nextInt(4))
        {
            case 0: return ListType.getInstance(Int32Type.instance, true);
            case 1: return SetType.getInstance(Int32Type.instance, true);
            case 2: return MapType.getInstance(Int32Type.instance, UTF8Type.instance, true);
            default: return userType(true);
        }
    }

    static TableMetadata randomTable(int number)
    {
        TableId id = TableId.fromUUID(new UUID(random.nextLong() & ~0xF000L | 0x4000L, random.nextLong() >>> 2 | 1L << 63));
        TableMetadata.Builder b = TableMetadata.builder("ks", "t" + number, id).partitioner(Murmur3Partitioner.instance);
        for (int i = one(2) ? 1 : 2; i > 0; i--)
            b.addPartitionKeyColumn("k" + i, nativeType());
        int count = random.nextInt(4);
        for (int i = 0; i < count; i++)
        {
            AbstractType<?> type = one(3) ? nativeType() : Int32Type.instance;
            b.addClusteringColumn("c" + i, one(3) ? ReversedType.getInstance(type) : type);
        }
        for (int i = count == 0 ? 0 : random.nextInt(3); i > 0; i--)
            b.addStaticColumn("s" + i, one(3) ? multiCell() : one(2) ? Int32Type.instance : frozenType(0));
        for (int i = random.nextInt(6); i > 0; i--)
            b.addRegularColumn((one(2) ? "v" : "Z") + i, one(2) ? multiCell() : one(2) ? Int32Type.instance : frozenType(0));
        return b.build();
    }

    // ------------------------------------------------------------------ content

    /** Draws one of few timestamps, so that writes have equal ones. */
    static long moment()
    {
        return NOW * 1_000_000 + random.nextInt(MOMENTS);
    }

    /** Draws a second of a deletion or expiry: about now, within the grace, or before it. */
    static long second()
    {
        switch (random.nextInt(4))
        {
            case 0: return NOW - GRACE - random.nextInt(3);
            case 1: return NOW - random.nextInt(3);
            default: return NOW - random.nextInt(GRACE + 100);
        }
    }

    static DeletionTime deleted()
    {
        long moment = moment();
        return DeletionTime.build(moment, seconds[(int) (moment - NOW * 1_000_000)]);
    }

    static Clustering<?> place()
    {
        return table.clusteringColumns().isEmpty() ? Clustering.EMPTY : Clustering.make(any(clusterings));
    }

    static ByteBuffer few(AbstractType<?> type)
    {
        if (type.unwrap() == Int32Type.instance) return ByteBufferUtil.bytes(random.nextInt(5));
        if (type.unwrap() == UTF8Type.instance && one(2)) return ByteBufferUtil.bytes("" + (char) ('a' + random.nextInt(3)));
        return value(type);
    }

    static Cell<?> aCell(ColumnMetadata column, AbstractType<?> type, CellPath path)
    {
        ByteBuffer value = type == null ? ByteBufferUtil.EMPTY_BYTE_BUFFER : few(type);
        long moment = moment();
        switch (random.nextInt(6))
        {
            case 0: return BufferCell.tombstone(column, moment, second(), path);
            case 1: return new BufferCell(column, moment, 1 + random.nextInt(99), one(2) ? second() : NOW + random.nextInt(2), value, path);
            default: return new BufferCell(column, moment, 0, Cell.NO_DELETION_TIME, value, path);
        }
    }

    static Row aRow(Clustering<?> clustering, Columns columns)
    {
        boolean isStatic = clustering == Clustering.STATIC_CLUSTERING;
        Row.Builder b = BTreeRow.unsortedBuilder();
        b.newRow(clustering);
        if (!isStatic && one(8))
        {
            b.addRowDeletion(Row.Deletion.regular(deleted()));
            return b.build();
        }
        if (!isStatic && !one(3))
            b.addPrimaryKeyLivenessInfo(one(4) ? LivenessInfo.withExpirationTime(moment(), 1 + random.nextInt(99), one(2) ? second() : NOW + random.nextInt(2)) : LivenessInfo.create(moment(), NOW));
        for (ColumnMetadata column : columns)
        {
            if (one(3)) continue;
            if (!column.isComplex())
            {
                b.addCell(aCell(column, column.type, null));
                continue;
            }
            AbstractType<?> type = column.type;
            if (one(4)) { b.addComplexDeletion(column, deleted()); continue; }
            for (int i = 1 + random.nextInt(3); i > 0; i--)
            {
                if (type instanceof ListType)
                    b.addCell(aCell(column, ((ListType<?>) type).getElementsType(), CellPath.create(timeUuid().toBytes())));
                else if (type instanceof SetType)
                    b.addCell(aCell(column, null, CellPath.create(few(((SetType<?>) type).getElementsType()))));
                else if (type instanceof MapType)
                    b.addCell(aCell(column, ((MapType<?, ?>) type).getValuesType(), CellPath.create(few(((MapType<?, ?>) type).getKeysType()))));
                else
                {
                    UserType udt = (UserType) type;
                    int field = random.nextInt(udt.size());
                    b.addCell(aCell(column, udt.type(field), CellPath.create(ByteBufferUtil.bytes((short) field))));
                }
            }
        }
        return b.build();
    }

    static ByteBuffer[] prefix()
    {
        ByteBuffer[] all = any(clusterings);
        return Arrays.copyOf(all, random.nextInt(all.length + 1));
    }

    static Slice aSlice()
    {
        for (int i = 0; i < 20; i++)
        {
            ClusteringBound<?> start = BufferClusteringBound.create(one(2) ? ClusteringPrefix.Kind.INCL_START_BOUND : ClusteringPrefix.Kind.EXCL_START_BOUND, prefix());
            ClusteringBound<?> end = BufferClusteringBound.create(one(2) ? ClusteringPrefix.Kind.INCL_END_BOUND : ClusteringPrefix.Kind.EXCL_END_BOUND, prefix());
            if (start.size() == 0 && start.kind() != ClusteringPrefix.Kind.INCL_START_BOUND) continue;
            if (end.size() == 0 && end.kind() != ClusteringPrefix.Kind.INCL_END_BOUND) continue;
            Slice slice = Slice.make(start, end);
            if (!slice.isEmpty(table.comparator)) return slice;
        }
        return Slice.ALL;
    }

    static PartitionUpdate anUpdate(DecoratedKey key)
    {
        if (one(25))
        {
            DeletionTime deleted = deleted();
            return PartitionUpdate.fullPartitionDelete(table, key, deleted.markedForDeleteAt(), deleted.localDeletionTime());
        }
        PartitionUpdate.Builder b = new PartitionUpdate.Builder(table, key, table.regularAndStaticColumns(), 4);
        boolean hasClusterings = !table.clusteringColumns().isEmpty();
        if (hasClusterings && one(4))
            b.add(new RangeTombstone(aSlice(), isFlushed ? deleted() : DeletionTime.build(moment(), second())));
        else if (!table.staticColumns().isEmpty() && one(4))
            b.add(aRow(Clustering.STATIC_CLUSTERING, table.staticColumns()));
        else
            b.add(aRow(place(), table.regularColumns()));
        return b.build();
    }

    static void fill() throws Exception
    {
        keys = new ArrayList<>();
        for (int i = 0; i < 4; i++)
            keys.add(key());
        clusterings = new ArrayList<>();
        for (int i = 0; i < 7; i++)
        {
            ByteBuffer[] values = new ByteBuffer[table.clusteringColumns().size()];
            for (int c = 0; c < values.length; c++)
                values[c] = one(2) && i > 0 ? clusterings.get(i - 1)[c] : few(table.clusteringColumns().get(c).type);
            clusterings.add(values);
        }
        for (int i = 0; i < MOMENTS; i++)
            seconds[i] = second();
        content = new TreeMap<>();
        // One key has no content.
        for (int i = 5 + random.nextInt(60); i > 0; i--)
        {
            DecoratedKey key = keys.get(random.nextInt(3));
            PartitionUpdate update = anUpdate(key);
            if (update.isEmpty()) continue;
            AtomicBTreePartition partition = content.computeIfAbsent(key, k -> new AtomicBTreePartition(TableMetadataRef.forOfflineTools(table), k, allocator));
            try (OpOrder.Group group = order.start())
            {
                partition.addAll(update, allocator.cloner(group), group, UpdateTransaction.NO_OP);
            }
            try (DataOutputBuffer buffer = new DataOutputBuffer())
            {
                Mutation.serializer.serialize(new Mutation(update), buffer, 13);
                out.println("write " + Hex.bytesToHex(buffer.toByteArray()));
            }
        }
    }

    // ------------------------------------------------------------------ reads

    static final List<Operator> COMPARISONS = Arrays.asList(Operator.EQ, Operator.NEQ, Operator.LT, Operator.LTE, Operator.GT, Operator.GTE);

    static RowFilter conditions()
    {
        if (!one(3)) return RowFilter.none();
        RowFilter filter = RowFilter.create(one(2));
        List<ColumnMetadata> columns = new ArrayList<>();
        for (ColumnMetadata column : table.columns())
            if (!(column.type instanceof UserType && column.isComplex())) columns.add(column);
        for (int i = 1 + random.nextInt(2); i > 0; i--)
        {
            ColumnMetadata column = any(columns);
            AbstractType<?> type = column.type.unwrap();
            if (type instanceof MapType && one(3))
                filter.addMapEquality(column, few(((MapType<?, ?>) type).getKeysType()), Operator.EQ, few(((MapType<?, ?>) type).getValuesType()));
            else if (type instanceof MapType && one(2))
                filter.add(column, Operator.CONTAINS_KEY, few(((MapType<?, ?>) type).getKeysType()));
            else if (type instanceof MapType && (column.isComplex() || one(2)))
                filter.add(column, Operator.CONTAINS, few(((MapType<?, ?>) type).getValuesType()));
            else if (type instanceof SetType && (column.isComplex() || one(2)))
                filter.add(column, Operator.CONTAINS, few(((SetType<?>) type).getElementsType()));
            else if (type instanceof ListType && (column.isComplex() || one(2)))
                filter.add(column, Operator.CONTAINS, few(((ListType<?>) type).getElementsType()));
            else if (one(5))
            {
                byte[] left = ByteBufferUtil.getArray(few(type)), right = ByteBufferUtil.getArray(few(type));
                ByteBuffer list = ByteBuffer.allocate(12 + left.length + right.length);
                list.putInt(2).putInt(left.length).put(left).putInt(right.length).put(right).flip();
                filter.add(column, Operator.IN, list);
            }
            else
                filter.add(column, any(COMPARISONS), column.isPartitionKey() && table.partitionKeyColumns().size() == 1 ? any(keys).getKey() : few(type));
        }
        return filter;
    }

    static DataLimits someLimits() throws Exception
    {
        int limit = one(2) ? Integer.MAX_VALUE : 1 + random.nextInt(6), per = one(2) ? Integer.MAX_VALUE : 1 + random.nextInt(4);
        int rows = one(2) ? Integer.MAX_VALUE : 1 + random.nextInt(8);
        AggregationSpecification groups = one(3) ? AggregationSpecification.AGGREGATE_EVERYTHING
            : AggregationSpecification.aggregatePkPrefixFactory(table.comparator, random.nextInt(table.clusteringColumns().size() + 1)).newInstance(null);
        switch (random.nextInt(8))
        {
            case 0: return DataLimits.distinctLimits(limit);
            case 1: return DataLimits.cqlLimits(limit, per).forPaging(1 + random.nextInt(6), any(keys).getKey(), random.nextInt(4));
            case 2:
            {
                GroupingState state = one(2) ? GroupingState.EMPTY_STATE : new GroupingState(any(keys).getKey(), one(3) ? null : place());
                return DataLimits.groupByLimits(limit, per, rows, groups).forGroupByInternalPaging(state);
            }
            case 3: return DataLimits.groupByLimits(limit, per, rows, groups);
            case 4:
            {
                Class<?> paging = Class.forName("org.apache.cassandra.db.filter.DataLimits$CQLGroupByPagingLimits");
                ByteBuffer last = any(keys).getKey();
                GroupingState state = one(2) ? GroupingState.EMPTY_STATE : new GroupingState(last, one(3) ? null : place());
                return (DataLimits) make(paging, limit, per, rows, groups, state, last, random.nextInt(4));
            }
            case 5: return DataLimits.NONE;
            default: return DataLimits.cqlLimits(limit, per);
        }
    }

    static ClusteringIndexFilter rowsOfPartition()
    {
        boolean reversed = one(3);
        if (one(3) || table.clusteringColumns().isEmpty())
        {
            BTreeSet.Builder<Clustering<?>> names = BTreeSet.builder(table.comparator);
            Set<Clustering<?>> once = new TreeSet<>(table.comparator);
            for (int i = random.nextInt(4); i > 0; i--)
                once.add(place());
            once.forEach(names::add);
            return new ClusteringIndexNamesFilter(names.build(), reversed);
        }
        if (one(2)) return new ClusteringIndexSliceFilter(one(9) ? Slices.NONE : Slices.ALL, reversed);
        Slices.Builder b = new Slices.Builder(table.comparator);
        for (int i = 1 + random.nextInt(3); i > 0; i--)
            b.add(aSlice());
        return new ClusteringIndexSliceFilter(b.build(), reversed);
    }

    static DataRange someRange()
    {
        PartitionPosition left = one(2) ? table.partitioner.getMinimumToken().minKeyBound() : one(2) ? any(keys) : any(keys).getToken().maxKeyBound();
        PartitionPosition right = one(2) ? table.partitioner.getMinimumToken().minKeyBound() : one(2) ? any(keys) : any(keys).getToken().maxKeyBound();
        if (left.compareTo(right) > 0 && !right.isMinimum()) { PartitionPosition swap = left; left = right; right = swap; }
        AbstractBounds<PartitionPosition> bounds = left.equals(right) || one(2) ? new Bounds<>(left, right) : new Range<>(left, right);
        DataRange range = new DataRange(bounds, rowsOfPartition());
        return one(3) ? range.forPaging(bounds, table.comparator, place(), one(2)) : range;
    }

    /** Draws the columns of a read; a read with conditions has all, as a coordinator adds them. */
    static ColumnFilter columns(RowFilter conditions)
    {
        ColumnFilter made = columnFilter();
        if (conditions.isEmpty()) return made;
        return ColumnFilter.all(table);
    }

    /** Returns false if Cassandra cannot answer: a limit of groups has left a range deletion open. */
    static boolean read(int version) throws Exception
    {
        RowFilter conditions = conditions();
        ColumnFilter columns = columns(conditions);
        long now = NOW + random.nextInt(2);
        DataLimits limits = someLimits();
        ReadCommand command = one(2)
            ? SinglePartitionReadCommand.create(table, now, columns, conditions, limits, any(keys), rowsOfPartition())
            : PartitionRangeReadCommand.create(table, now, columns, conditions, limits, someRange());
        ReadResponse response;
        try
        {
            response = (ReadResponse) noOp("createDataResponse", executed(command), command);
        }
        catch (java.lang.reflect.InvocationTargetException e)
        {
            if (e.getCause() instanceof IllegalStateException) return false;
            throw e;
        }
        ReadResponse digest = ReadResponse.createDigestResponse(executed(command), command);
        out.println("answer " + version + " " + hex(ReadCommand.serializer, command, version) + " " +
                    hex(ReadResponse.serializer, response, version) + " " + ByteBufferUtil.bytesToHex(digest.digest(command)));
        return true;
    }

    static boolean queriesMultiCell(ColumnFilter columns)
    {
        for (ColumnMetadata column : columns.queriedColumns())
            if (column.type.isMultiCell()) return true;
        return false;
    }

    /** The rows of a partition as a memtable shows them. */
    static UnfilteredRowIterator rows(ReadCommand command, DecoratedKey key)
    {
        AtomicBTreePartition merged = content.get(key);
        ColumnFilter columns = command.columnFilter();
        ClusteringIndexFilter filter = command.clusteringIndexFilter(key);
        if (command instanceof PartitionRangeReadCommand) return filter.getUnfilteredRowIterator(columns, merged);
        UnfilteredRowIterator rows = merged.unfilteredIterator(columns, filter.getSlices(table), filter.isReversed());
        if (!(filter instanceof ClusteringIndexNamesFilter) || queriesMultiCell(columns)) return rows;
        ImmutableBTreePartition named = ImmutableBTreePartition.create(rows, 4);
        return named.isEmpty() ? EmptyIterators.unfilteredRow(table, key, false)
                               : named.unfilteredIterator(columns, Slices.ALL, filter.isReversed());
    }

    static UnfilteredPartitionIterator stored(ReadCommand command)
    {
        List<DecoratedKey> selected = new ArrayList<>();
        for (DecoratedKey key : content.keySet())
            if (command instanceof SinglePartitionReadCommand ? ((SinglePartitionReadCommand) command).partitionKey().equals(key)
                                                              : ((PartitionRangeReadCommand) command).dataRange().contains(key))
                selected.add(key);
        Iterator<DecoratedKey> iterator = selected.iterator();
        return new AbstractUnfilteredPartitionIterator()
        {
            public TableMetadata metadata() { return table; }
            public boolean hasNext() { return iterator.hasNext(); }
            public UnfilteredRowIterator next() { return rows(command, iterator.next()); }
        };
    }

    static UnfilteredPartitionIterator executed(ReadCommand command)
    {
        long now = command.nowInSec();
        class Purge extends PurgeFunction
        {
            Purge() { super(now, now - table.params.gcGraceSeconds, Long.MAX_VALUE, false, table.enforceStrictLiveness()); }
            protected LongPredicate getPurgeEvaluator() { return time -> true; }
        }
        UnfilteredPartitionIterator iterator = Transformation.apply(stored(command), new Purge());
        iterator = command.rowFilter().filter(iterator, now);
        iterator = command.limits().filter(iterator, now, command.selectsFullPartition());
        return RTBoundCloser.close(iterator);
    }
}
