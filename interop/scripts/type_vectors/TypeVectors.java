// Prints Cassandra's results for values, types and texts, as lines of text for testdata/. One
// argument: the kind. Inputs are edge cases and values from a seeded generator, so that the output
// is the same each time.

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.function.Supplier;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.FieldIdentifier;
import org.apache.cassandra.cql3.Term;
import org.apache.cassandra.cql3.QueryOptions;
import org.apache.cassandra.db.*;
import org.apache.cassandra.db.marshal.*;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.serializers.CollectionSerializer;
import org.apache.cassandra.serializers.MarshalException;
import org.apache.cassandra.transport.ProtocolVersion;
import org.apache.cassandra.utils.*;
import org.apache.cassandra.utils.bytecomparable.*;

public class TypeVectors
{
    static final Random random = new Random(20260101);
    static final ByteBuffer EMPTY = ByteBuffer.allocate(0);

    public static void main(String[] args) throws Exception
    {
        DatabaseDescriptor.clientInitialization();
        System.setOut(new java.io.PrintStream(System.out, true, "UTF-8"));
        System.out.println("# Made by interop/scripts/type_vectors with Apache Cassandra " + FBUtilities.getReleaseVersionString() + "; do not edit.");
        switch (args[0])
        {
            case "values": values(); break;
            case "clusterings": clusterings(); break;
            case "keys": keys(); break;
            case "names": names(); break;
            case "validate": validate(); break;
            case "parse": parse(); break;
            case "print": print(); break;
            case "json": json(); break;
            case "timeuuid": timeuuid(); break;
            default: throw new IllegalArgumentException(args[0]);
        }
    }

    // ---- types

    static final List<AbstractType<?>> SCALARS = List.of(
        AsciiType.instance, LongType.instance, BytesType.instance, BooleanType.instance, SimpleDateType.instance,
        DecimalType.instance, DoubleType.instance, DurationType.instance, EmptyType.instance, FloatType.instance,
        InetAddressType.instance, Int32Type.instance, ShortType.instance, UTF8Type.instance, TimeType.instance,
        TimestampType.instance, TimeUUIDType.instance, ByteType.instance, UUIDType.instance, IntegerType.instance,
        DateType.instance, LexicalUUIDType.instance);

    static UserType udt(String name, boolean multiCell, Object... fields)
    {
        List<FieldIdentifier> names = new ArrayList<>();
        List<AbstractType<?>> types = new ArrayList<>();
        for (int i = 0; i < fields.length; i += 2)
        {
            names.add(FieldIdentifier.forInternalString((String) fields[i]));
            types.add((AbstractType<?>) fields[i + 1]);
        }
        return new UserType("ks", ByteBufferUtil.bytes(name), names, types, multiCell);
    }

    static TupleType tuple(AbstractType<?>... types) { return new TupleType(Arrays.asList(types)); }
    static AbstractType<?> list(AbstractType<?> t) { return ListType.getInstance(t, false); }
    static AbstractType<?> set(AbstractType<?> t) { return SetType.getInstance(t, false); }
    static AbstractType<?> map(AbstractType<?> k, AbstractType<?> v) { return MapType.getInstance(k, v, false); }

    static List<AbstractType<?>> nested()
    {
        return List.of(
            list(Int32Type.instance), list(UTF8Type.instance), list(DecimalType.instance), set(IntegerType.instance), set(BytesType.instance),
            map(UTF8Type.instance, LongType.instance), map(Int32Type.instance, list(UTF8Type.instance)),
            tuple(Int32Type.instance, UTF8Type.instance), tuple(UTF8Type.instance, UUIDType.instance, BooleanType.instance),
            list(tuple(ShortType.instance, set(UTF8Type.instance))),
            udt("address", false, "street", UTF8Type.instance, "number", Int32Type.instance, "tags", set(UTF8Type.instance)),
            map(udt("P", false, "x", DoubleType.instance), tuple(InetAddressType.instance)),
            VectorType.getInstance(FloatType.instance, 3), VectorType.getInstance(UTF8Type.instance, 2),
            VectorType.getInstance(ByteType.instance, 3), VectorType.getInstance(list(Int32Type.instance), 2),
            CompositeType.getInstance(Int32Type.instance, UTF8Type.instance),
            CompositeType.getInstance(UTF8Type.instance, IntegerType.instance, TimeUUIDType.instance));
    }

    // ---- values

    static byte[] randomBytes(int max)
    {
        byte[] b = new byte[random.nextInt(max + 1)];
        random.nextBytes(b);
        // Escaping concerns zeros and the bytes FE and FF.
        for (int i = 0; i < b.length; i++)
            switch (random.nextInt(6)) { case 0: b[i] = 0; break; case 1: b[i] = -1; break; case 2: b[i] = -2; break; default: }
        return b;
    }

    static ByteBuffer bb(byte[] b) { return ByteBuffer.wrap(b); }
    static ByteBuffer hex(String h) { return ByteBufferUtil.hexToBytes(h.equals("-") ? "" : h); }

    static String randomText(int max)
    {
        StringBuilder b = new StringBuilder();
        String alphabet = "\0\1aAzZ '\"\\\u007f\u00e9\u4e2d\ud83d";
        for (int n = random.nextInt(max + 1); n > 0; n--)
        {
            char c = alphabet.charAt(random.nextInt(alphabet.length()));
            b.append(c);
            if (c == '\ud83d') b.append('\ude00');
        }
        return b.toString();
    }

    static long randomLong() { return random.nextLong() >> random.nextInt(64); }

    static ByteBuffer randomValue(AbstractType<?> t)
    {
        if (t instanceof AsciiType) return bb(randomText(8).replaceAll("[^\\x00-\\x7f]", "q").getBytes(StandardCharsets.US_ASCII));
        if (t instanceof UTF8Type) return ByteBufferUtil.bytes(randomText(8));
        if (t instanceof BytesType) return bb(randomBytes(8));
        if (t instanceof BooleanType) return bb(new byte[]{ (byte) random.nextInt(2) });
        if (t instanceof ByteType) return bb(new byte[]{ (byte) randomLong() });
        if (t instanceof ShortType) return ByteBufferUtil.bytes((short) randomLong());
        if (t instanceof Int32Type || t instanceof FloatType || t instanceof SimpleDateType)
            return ByteBufferUtil.bytes(t instanceof Int32Type ? (int) randomLong() : random.nextInt());
        if (t instanceof LongType || t instanceof DoubleType || t instanceof TimestampType || t instanceof DateType)
            return ByteBufferUtil.bytes(t instanceof DoubleType ? random.nextLong() : randomLong());
        if (t instanceof TimeType) return ByteBufferUtil.bytes((random.nextLong() >>> 1) % 86400000000000L);
        if (t instanceof IntegerType) return bb(new java.math.BigInteger(random.nextInt(100), random).subtract(new java.math.BigInteger(random.nextInt(100), random)).toByteArray());
        if (t instanceof DecimalType)
            return DecimalType.instance.decompose(new java.math.BigDecimal(new java.math.BigInteger(random.nextInt(100), random).subtract(new java.math.BigInteger(random.nextInt(100), random)), random.nextInt(60) - 30));
        if (t instanceof TimeUUIDType || t instanceof UUIDType || t instanceof LexicalUUIDType)
        {
            byte[] b = new byte[16];
            random.nextBytes(b);
            int version = t instanceof TimeUUIDType ? 1 : new int[]{ 0, 1, 1, 4, 4, 7, 15 }[random.nextInt(7)];
            b[6] = (byte) (version << 4 | b[6] & 15);
            return bb(b);
        }
        if (t instanceof InetAddressType) { byte[] b = new byte[random.nextBoolean() ? 4 : 16]; random.nextBytes(b); return bb(b); }
        if (t instanceof DurationType)
        {
            int s = random.nextBoolean() ? 1 : -1;
            return DurationType.instance.decompose(org.apache.cassandra.cql3.Duration.newInstance(s * random.nextInt(100), s * random.nextInt(100), s * (random.nextLong() >>> 2 + random.nextInt(60))));
        }
        if (t instanceof EmptyType) return EMPTY;
        if (t instanceof ListType) return pack(((ListType<?>) t).getElementsType(), 1, random.nextInt(4), t);
        if (t instanceof SetType) return pack(((SetType<?>) t).getElementsType(), 1, random.nextInt(4), t);
        if (t instanceof MapType) return packMap((MapType<?, ?>) t, random.nextInt(3));
        if (t instanceof TupleType)
        {
            TupleType tt = (TupleType) t;
            int n = random.nextInt(4) == 0 ? random.nextInt(tt.size() + 1) : tt.size();
            ByteBuffer[] fields = new ByteBuffer[n];
            for (int i = 0; i < n; i++) fields[i] = random.nextInt(4) == 0 ? null : randomValue(tt.type(i));
            return TupleType.buildValue(fields);
        }
        if (t instanceof VectorType)
        {
            VectorType<?> v = (VectorType<?>) t;
            List<ByteBuffer> parts = new ArrayList<>();
            for (int i = 0; i < v.dimension; i++) parts.add(randomValue(v.elementType));
            return v.decomposeRaw(parts);
        }
        if (t instanceof CompositeType)
        {
            List<ByteBuffer> parts = new ArrayList<>();
            for (AbstractType<?> c : ((CompositeType) t).types) parts.add(randomValue(c));
            return CompositeType.build(ByteBufferAccessor.instance, parts.toArray(new ByteBuffer[0]));
        }
        throw new IllegalArgumentException(t.toString());
    }

    static ByteBuffer pack(AbstractType<?> element, int parts, int n, AbstractType<?> t)
    {
        List<ByteBuffer> items = new ArrayList<>();
        for (int i = 0; i < n; i++) items.add(randomValue(element));
        if (t instanceof SetType)
        {
            TreeSet<ByteBuffer> sorted = new TreeSet<>(element);
            sorted.addAll(items);
            items = new ArrayList<>(sorted);
        }
        return CollectionSerializer.pack(items, items.size());
    }

    static ByteBuffer packMap(MapType<?, ?> t, int n)
    {
        TreeMap<ByteBuffer, ByteBuffer> sorted = new TreeMap<>(t.getKeysType());
        for (int i = 0; i < n; i++) sorted.put(randomValue(t.getKeysType()), randomValue(t.getValuesType()));
        List<ByteBuffer> items = new ArrayList<>();
        sorted.forEach((k, v) -> { items.add(k); items.add(v); });
        return CollectionSerializer.pack(items, sorted.size());
    }

    /** Returns values at the limits, as texts for `fromString`; a leading # marks hex. */
    static List<String> edges(AbstractType<?> t)
    {
        if (t instanceof AsciiType) return List.of("", "a", "ab", "a\0", "a\0b", "a\0\0", "\0", "\u007f");
        if (t instanceof UTF8Type) return List.of("", "a", "ab", "a\0", "a\0\0b", "\0\0", "\u00e9", "\ud83d\ude00", "\ufffd");
        if (t instanceof BytesType) return List.of("", "00", "0000", "00fe", "00ff", "fe", "ff", "ffff", "00fe00", "fe00", "ff00", "0000ff", "01", "0100", "010000", "0100fe", "0100ff", "0138", "0140");
        if (t instanceof BooleanType) return List.of("#", "true", "false", "#02", "#ff");
        if (t instanceof ByteType) return List.of("0", "1", "-1", "127", "-128");
        if (t instanceof ShortType) return List.of("0", "1", "-1", "256", "32767", "-32768");
        if (t instanceof Int32Type) return List.of("", "0", "1", "-1", "255", "256", "65536", "2147483647", "-2147483648");
        if (t instanceof LongType || t instanceof TimestampType)
        {
            List<String> all = new ArrayList<>(List.of("", "0", "1", "-1", "9223372036854775807", "-9223372036854775808"));
            for (int bit = 6; bit < 63; bit += 7)
                for (long d = -1; d <= 1; d++) { all.add(Long.toString((1L << bit) + d)); all.add(Long.toString(-(1L << bit) + d)); }
            return t instanceof LongType ? all : all.subList(0, 12);
        }
        if (t instanceof IntegerType)
        {
            List<String> all = new ArrayList<>(List.of("", "0", "1", "-1", "#00", "#0000", "#ffff", "#0001", "#ff80", "127", "128", "-128", "-129", "255"));
            for (int bits : new int[]{ 47, 48, 49, 55, 56, 57, 63, 64, 65, 127, 128, 1024 })
            {
                java.math.BigInteger p = java.math.BigInteger.ONE.shiftLeft(bits);
                for (java.math.BigInteger x : List.of(p, p.subtract(java.math.BigInteger.ONE), p.negate(), p.negate().subtract(java.math.BigInteger.ONE))) all.add(x.toString());
            }
            all.add("1" + "0".repeat(400));
            all.add("-1" + "0".repeat(400));
            return all;
        }
        if (t instanceof DecimalType)
            return List.of("", "0", "0.00", "0e10", "1", "1.0", "1.00", "-1", "1.1", "-1.1", "1.01", "0.1", "0.01", "0.001", "-0.1", "-0.01", "-0.001", "10", "99", "-99", "100", "99.9", "-99.9", "101", "1000", "1e10", "1e11",
                           "123.456", "-1234.56", "1e100", "1e101", "-1e100", "1e-100", "1e-101", "-1e-100", "1e255", "1e256", "1e511", "1e512", "1e513", "-1e511", "-1e512", "1e-511", "1e-512", "-1e-513", "1e2147483647", "-1e2147483647", "1e-2147483647", "-1e-2147483647", "12e2147483647", "99999e-2147483647",
                           "123456789012345678901234567890123456789012345678901234567890.123456789", "170141183460469231731687303715884105727", "-170141183460469231731687303715884105728", "1329227995784915872903807060280344575", "1329227995784915872903807060280344576");
        if (t instanceof FloatType) return List.of("", "0", "-0", "1", "-1", "1.4e-45", "-1.4e-45", "3.4028235e38", "-3.4028235e38", "Infinity", "-Infinity", "NaN");
        if (t instanceof DoubleType) return List.of("", "0", "-0", "1", "-1", "4.9e-324", "-4.9e-324", "1.7976931348623157e308", "Infinity", "-Infinity", "NaN");
        if (t instanceof SimpleDateType) return List.of("1970-01-01", "1969-12-31", "-5877641-06-23", "+5881580-07-11", "2024-02-29");
        if (t instanceof TimeType) return List.of("0", "1", "86399999999999", "12:34:56.789");
        if (t instanceof DurationType) return List.of("0s", "1mo", "-1mo", "1d", "1ns", "1y2mo3d4h5m6s7ms8us9ns", "-1y2mo3d4h5m6s7ms8us9ns", "2147483647d");
        if (t instanceof InetAddressType) return List.of("", "0.0.0.0", "127.0.0.1", "255.255.255.255", "::", "::1", "2001:db8::ff00:42:8329", "#00000000000000000000ffff01020304");
        if (t instanceof TimeUUIDType) return List.of("", "00000000-0000-1000-8080-808080808080", "00000000-0000-1000-7f7f-7f7f7f7f7f7f", "ffffffff-ffff-1fff-8080-808080808080", "ffffffff-ffff-1fff-7f7f-7f7f7f7f7f7f", "00000001-0000-1000-0000-000000000000", "00000000-0001-1000-ffff-ffffffffffff", "00000000-0000-1001-00ff-00ff00ff00ff");
        if (t instanceof UUIDType || t instanceof LexicalUUIDType) return List.of("", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "00000000-0000-1000-8080-808080808080", "00000001-0000-1000-7f7f-7f7f7f7f7f7f", "00000000-0001-1000-0000-000000000000", "00000000-0000-1001-0000-000000000000", "7fffffff-ffff-4fff-bfff-ffffffffffff", "80000000-0000-4000-8000-000000000000", "80000000-0000-4fff-0000-000000000000", "00000000-0000-2000-0000-000000000000", "7fffffff-ffff-ffff-7fff-ffffffffffff");
        if (t instanceof DateType) return List.of("", "#0000000000000000", "#ffffffffffffffff", "#7fffffffffffffff", "#8000000000000000");
        if (t instanceof EmptyType) return List.of("");
        // Collections are empty, or have empty and null elements; validation drops values that do
        // not fit the type.
        if (t instanceof ListType || t instanceof SetType) return List.of("#00000000", "#0000000100000000", "#000000020000000000000000");
        if (t instanceof MapType) return List.of("#00000000", "#000000010000000000000000");
        if (t instanceof CompositeType) return List.of("#", "#000000", "#000000000000", "#000400000001ff", "#00040000000101", "#00040000000100", "#ffff00040000000100");
        if (t instanceof TupleType) return List.of("#", "#ffffffff", "#ffffffffffffffff", "#00000000", "#0000000000000000", "#00000000ffffffff", "#ffffffff00000000");
        if (t instanceof VectorType) return List.of("#000000000000000000000000", "#0000", "#04000000000400000000");
        return List.of();
    }

    static List<ByteBuffer> sample(AbstractType<?> t, int randoms)
    {
        List<ByteBuffer> all = new ArrayList<>();
        for (String e : edges(t))
        {
            ByteBuffer v = e.startsWith("#") ? hex(e.substring(1)) : t.fromString(e);
            try { t.validate(v); } catch (MarshalException | IndexOutOfBoundsException x) { continue; }
            all.add(v);
        }
        for (int i = 0; i < randoms; i++) all.add(randomValue(t));
        return all;
    }

    static String h(ByteBuffer b) { return b.hasRemaining() ? ByteBufferUtil.bytesToHex(b) : "-"; }

    static String h(ByteSource s) { return s == null ? "null" : ByteBufferUtil.bytesToHex(bb(ByteSourceInverse.readBytes(s))); }

    static String esc(String s)
    {
        StringBuilder b = new StringBuilder();
        for (char c : s.toCharArray())
            if (c == '\\') b.append("\\\\");
            else if (c < 32 || c == 127) b.append(String.format("\\x%02x", (int) c));
            else b.append(c);
        return b.toString();
    }

    // ---- kinds

    static void values()
    {
        System.out.println("# `type NAME` opens a section; then `VALUE ENCODING` in hex, in the order of AbstractType.compare; `=` in front: equal to the");
        System.out.println("# line before. VALUE `-`: zero-length; ENCODING `null`: no bytes, expressed by the separator.");
        List<AbstractType<?>> all = new ArrayList<>(SCALARS);
        all.addAll(nested());
        for (AbstractType<?> t : List.copyOf(all))
            if (List.of(AsciiType.instance, LongType.instance, BytesType.instance, DecimalType.instance, IntegerType.instance, TimeUUIDType.instance, EmptyType.instance).contains(t) || t instanceof TupleType && !(t instanceof UserType) || t instanceof MapType)
                all.add(ReversedType.getInstance(t));
        for (AbstractType<?> t : all)
        {
            AbstractType<?> base = t.unwrap();
            System.out.println("type " + t);
            boolean small = t.isReversed() || !SCALARS.contains(base);
            List<ByteBuffer> sample = sample(base, t instanceof EmptyType ? 0 : small ? 8 : 10);
            if (t.isReversed() && sample.size() > 24) sample = sample.subList(0, 24);
            sample.sort(t);
            ByteBuffer before = null;
            for (ByteBuffer v : sample)
            {
                String same = before != null && t.compare(before, v) == 0 ? "=" : "";
                System.out.println(same + h(v) + " " + h(t.asComparableBytes(ByteBufferAccessor.instance, v, ByteComparable.Version.OSS50)));
                before = v;
            }
        }
    }

    static void clusterings()
    {
        System.out.println("# KIND|TYPE;TYPE...|VALUE,VALUE...|ENCODING; a value `null` is null, `-` zero-length. KIND: row, before or after (the bounds).");
        List<AbstractType<?>> pool = new ArrayList<>(SCALARS);
        pool.addAll(nested());
        pool.removeIf(t -> t instanceof DurationType || t instanceof CompositeType);
        List<List<AbstractType<?>>> schemas = new ArrayList<>();
        for (AbstractType<?> t : pool) { schemas.add(List.of(t)); schemas.add(List.of(ReversedType.getInstance(t))); }
        for (int i = 0; i < 60; i++)
        {
            List<AbstractType<?>> types = new ArrayList<>();
            for (int n = 2 + random.nextInt(3); n > 0; n--)
            {
                AbstractType<?> t = pool.get(random.nextInt(pool.size()));
                types.add(random.nextBoolean() ? ReversedType.getInstance(t) : t);
            }
            schemas.add(types);
        }
        for (List<AbstractType<?>> types : schemas)
        {
            ClusteringComparator comparator = new ClusteringComparator(types);
            for (int round = 0; round < 4; round++)
            {
                int n = round == 3 ? random.nextInt(types.size() + 1) : types.size();
                ByteBuffer[] v = new ByteBuffer[n];
                for (int i = 0; i < n; i++)
                {
                    AbstractType<?> t = types.get(i).unwrap();
                    boolean allowsEmpty = true;
                    try { t.validate(EMPTY); } catch (MarshalException e) { allowsEmpty = false; }
                    v[i] = round == 0 && allowsEmpty ? EMPTY : round == 2 && random.nextInt(3) == 0 ? null : randomValue(t);
                }
                ClusteringPrefix<?> p;
                String kind;
                if (round < 3) { p = Clustering.make(v); kind = "row"; }
                else
                {
                    boolean before = random.nextBoolean();
                    kind = before ? "before" : "after";
                    p = before ? BufferClusteringBound.create(ClusteringPrefix.Kind.INCL_START_BOUND, v) : BufferClusteringBound.create(ClusteringPrefix.Kind.INCL_END_BOUND, v);
                }
                StringJoiner names = new StringJoiner(";"), vs = new StringJoiner(",");
                types.forEach(t -> names.add(t.toString()));
                for (ByteBuffer b : v) vs.add(b == null ? "null" : h(b));
                System.out.println(kind + "|" + names + "|" + vs + "|" + h(comparator.asByteComparable(p).asComparableBytes(ByteComparable.Version.OSS50)));
            }
        }
    }

    static void keys()
    {
        System.out.println("# TOKEN KEY ENCODING of decorated partition keys (Murmur3Partitioner), key and encoding in hex.");
        List<ByteBuffer> keys = new ArrayList<>();
        for (String k : List.of("00", "0000", "41", "4100", "410000", "41000042", "ff", "fe", "00fe", "00ff", "0004000000010000016100")) keys.add(hex(k));
        for (int i = 0; i < 40; i++) { byte[] b = randomBytes(20); if (b.length > 0) keys.add(bb(b)); }
        for (ByteBuffer k : keys)
        {
            DecoratedKey d = Murmur3Partitioner.instance.decorateKey(k);
            System.out.println(d.getToken().getLongValue() + " " + h(k) + " " + h(d.asComparableBytes(ByteComparable.Version.OSS50)));
        }
    }

    static void names()
    {
        System.out.println("# MARSHAL|CQL|LENGTH|MULTICELL: names, AbstractType.valueLengthIfFixed, isMultiCell. Types of `ks`: address, \"P\", \"select\".");
        AbstractType<?> address = udt("address", true, "street", UTF8Type.instance, "number", Int32Type.instance, "tags", set(UTF8Type.instance));
        AbstractType<?> p = udt("P", true, "x", DoubleType.instance);
        AbstractType<?> select = udt("select", true, "\u00e9 x", IntegerType.instance, "p", p.freeze());
        List<AbstractType<?>> all = new ArrayList<>(SCALARS);
        all.add(CounterColumnType.instance);
        all.addAll(nested());
        for (AbstractType<?> t : List.of(address, p, select))
        {
            all.add(t);
            all.add(t.freeze());
            all.add(ListType.getInstance(t.freeze(), true));
            all.add(MapType.getInstance(t.freeze(), list(t.freeze()), true));
            all.add(tuple(t.freeze(), t.freeze()));
            all.add(VectorType.getInstance(t.freeze(), 4));
        }
        for (AbstractType<?> t : List.of(ListType.getInstance(Int32Type.instance, true), SetType.getInstance(list(Int32Type.instance), true), MapType.getInstance(UTF8Type.instance, map(UTF8Type.instance, list(Int32Type.instance)), true),
                                         list(list(list(Int32Type.instance))), VectorType.getInstance(VectorType.getInstance(Int32Type.instance, 2), 3), VectorType.getInstance(VectorType.getInstance(ShortType.instance, 2), 3),
                                         tuple(tuple(Int32Type.instance), map(Int32Type.instance, Int32Type.instance)), VectorType.getInstance(BooleanType.instance, 7), VectorType.getInstance(TimeUUIDType.instance, 2)))
            all.add(t);
        for (AbstractType<?> t : all)
            System.out.println(t + "|" + (t instanceof DateType ? "'" + t + "'" : t.asCQL3Type()) + "|" + t.valueLengthIfFixed() + "|" + t.isMultiCell());
    }

    static void validate()
    {
        System.out.println("# MARSHAL|VALUE|ok or bad, by AbstractType.validate");
        List<AbstractType<?>> all = new ArrayList<>(SCALARS);
        all.add(CounterColumnType.instance);
        all.addAll(nested());
        for (AbstractType<?> t : all)
        {
            List<ByteBuffer> candidates = new ArrayList<>();
            for (int n = 0; n < 18; n++) candidates.add(ByteBuffer.allocate(n));
            if (!(t instanceof EmptyType || t instanceof CounterColumnType))
                for (int i = 0; i < 3; i++)
                {
                    ByteBuffer v = randomValue(t);
                    candidates.add(v);
                    byte[] b = ByteBufferUtil.getArray(v);
                    candidates.add(bb(Arrays.copyOf(b, b.length + 1)));
                    if (b.length > 0)
                    {
                        candidates.add(bb(Arrays.copyOf(b, b.length - 1)));
                        byte[] c = b.clone();
                        c[random.nextInt(c.length)] ^= (byte) (1 << random.nextInt(8));
                        candidates.add(bb(c));
                    }
                }
            if (t instanceof UTF8Type || t instanceof AsciiType)
                for (String s : List.of("ff", "c3", "c3a9", "e282", "e282ac", "eda080", "edb080", "c080", "c181", "e08080", "f0808080", "f09f9880", "f4908080", "f5808080", "80", "7f")) candidates.add(hex(s));
            for (ByteBuffer v : candidates)
            {
                boolean ok = true;
                try { t.validate(v.duplicate()); } catch (Throwable e) { ok = false; }
                System.out.println(t + "|" + h(v) + "|" + (ok ? "ok" : "bad"));
            }
        }
    }

    static void parse()
    {
        System.out.println("# CQL type|TEXT|VALUE or bad, by AbstractType.fromString; \\xNN and \\\\ are escapes");
        parse(TimestampType.instance, "0", "-1", "1234567890123", "2011-02-03", "2011-02-03 04:05", "2011-02-03T04:05", "2011-02-03 04:05:06", "2011-02-03T04:05:06Z", "2011-02-03 04:05:06.7", "2011-02-03 04:05:06.78", "2011-02-03 04:05:06.789", "2011-02-03 04:05:06.7891", "2011-02-03 04:05:06.789123456",
              "2011-02-03 04:05+0000", "2011-02-03 04:05+01", "2011-02-03 04:05+01:30", "2011-02-03 04:05-08:00", "2011-02-03T04:05:06.789+0130", "2011-02-03T04:05:06.789 +0130", "2011-02-03+0000", "2011-02-03 UTC", "2011-02-03 04:05 GMT", "2011-02-03T04:05:06GMT+01:00", "2011-02-03 04:05:06 GMT+01:00", "2011-02-03 04:05:06 UTC-5",
              "Mon Jan 02 15:04:05 UTC 2006", "20110203", "99999-01-01", "+99999-01-01", "9999-12-31", "0001-01-01", "0000-01-01", "-0001-01-01", "2011-13-01", "2011-00-01", "2011-01-00", "2011-01-32", "2011-02-30", "2011-02-29", "2012-02-29", "2012-02-31", "1900-02-29", "2000-02-29", "11-02-03", "2011-2-3", "2011-02-03 24:00", "2011-02-03 24:01", "2011-02-03 25:00", "2011-02-03 4:5",
              "2011-02-03T04:05:06.789Z", "2011-02-03t04:05:06z", " 2011-02-03", "2011-02-03 ", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "+5", "1e3", "2011-02-03T04:05Z", "2011-02-03T04", "2011-02-03 04:05:60", "2011-02-03 04:60:00", "2011-02-03 04:05:06,789", "2011-02-03T", "2011-02-03T04:05:06.", "2011-02-03T04:05:06.Z", "", "-", "x");
        parse(SimpleDateType.instance, "0", "1", "2147483646", "2147483647", "2147483648", "4294967295", "4294967296", "-1", "1970-01-01", "1969-12-31", "2011-2-3", "+2011-02-03", "0000-01-01", "-0001-01-01", "10000-01-01", "+10000-01-01", "99999-12-31", "-5877641-06-23", "-5877641-06-22", "+5881580-07-11", "+5881580-07-12", "2011-02-30", "2012-02-29", "2011-13-01", "2011-02-03Z", "2011-02-03 ", "");
        parse(TimeType.instance, "0", "1", "86399999999999", "86400000000000", "-1", "00:00", "00:00:00", "23:59:59.999999999", "23:59:59.9", "24:00:00", "1:2:3", "01:02:03.", "01:02:03.1234567891", "01:02:60", "01:60:00", "12:34", "", "aa:bb:cc");
        parse(DurationType.instance, "1mo2d3h", "1y2mo3w4d5h6m7s8ms9us10ns", "-1y", "P1Y2M", "P1Y2M3DT4H5M6S", "P5W", "-P1Y", "P0001-02-03T04:05:06", "-P0001-02-03T04:05:06", "1Y2MO", "1us", "1\u00b5s", "1d1y", "1y1y", "", "0s", "0ns", "P", "PT", "PT1M", "P1M", "PT1.5S", "1.5h", "2147483647mo", "2147483648mo", "178956970y7mo", "178956970y8mo", "2147483647d", "2147483648d",
              "9223372036854775807ns", "2562047h47m16s854ms775us807ns", "2562047h47m16s854ms775us808ns", "P-1Y", "P0001-00-00T00:00:00", "P1-2-3T4:5:6", "P0001-13-00T00:00:00", "P0001-00-32T00:00:00", "1h 2m", " 1h", "--1h", "+1h", "1", "h", "1x", "PT36H", "1d36h", "25h61m61s1001ms1001us1001ns", "p1y", "1m1mo", "1mo1m");
        parse(InetAddressType.instance, "127.0.0.1", "::1", "::", "::ffff:1.2.3.4", "1:0:0:2:0:0:0:3", "fe80::1", "2001:db8::1:0:0:1", "256.1.1.1", "::1.2.3.4", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", ":::", "");
        parse(IntegerType.instance, "0", "-1", "+5", "00012", "1234567890123456789012345678901234567890", "-170141183460469231731687303715884105728", "128", "-128", "255", "1.0", " 1", "-0", "", "1e3", "-", "+", "1_0");
        parse(DecimalType.instance, "0", "1.10", "-0.00", "1e10", "1E-10", ".5", "5.", "+1.5", "1e2147483647", "1e2147483649", "1e-2147483647", "1e-2147483648", "1e+5", "0e5", "0.0000001", "NaN", "", "1_0", "1e", "e5", ".", "-", "123456789012345678901234567890.123", "0x10", " 1", "1.2.3", "-1.5E+3");
        parse(FloatType.instance, "0", "-0", "1", "1.5", "NaN", "nan", "Infinity", "-Infinity", "infinity", "inf", "1e10", "1E-10", "1e7", "3.4028235e38", "1e39", "1e-46", "1.4e-45", " 1 ", "", "16777217", "0.1", "1.", ".5", "1_0", "abc", "1e", "+1");
        parse(DoubleType.instance, "0", "-0", "1", "1.5", "NaN", "Infinity", "-Infinity", "1e10", "1e308", "1e309", "4.9e-324", "2e-3", "0.1", "9007199254740993", "", "+Infinity", "-NaN", "1,5");
        parse(BooleanType.instance, "true", "TRUE", "tRue", "false", "False", "1", "0", "yes", " true");
        parse(ByteType.instance, "0", "-128", "127", "128", "+5", "", "1.0", "0x1");
        parse(ShortType.instance, "-32768", "32767", "32768", "");
        parse(Int32Type.instance, "2147483647", "2147483648", "-2147483648", "+5", "", "1 ", "01", "-", "+");
        parse(LongType.instance, "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-1", "+1", "");
        parse(UUIDType.instance, "123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-42D3-A456-426614174000", "123e4567e89b12d3a456426614174000", "1-1-1-1-1", "", "00000000-0000-0000-0000-000000000000", "123e4567-e89b-12d3-a456-42661417400g");
        parse(TimeUUIDType.instance, "123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174000", "2011-02-03", "");
        parse(BytesType.instance, "", "00ff", "0", "zz", "00FF");
        parse(AsciiType.instance, "a'b", "\u00e9", "", "a\"b\\c\n\t\u0001\u007f/");
        parse(UTF8Type.instance, "a'b", "\u00e9\ud83d\ude00", "", "a\"b\\c\n\t\u0001\u007f/");
    }

    static void parse(AbstractType<?> t, String... texts)
    {
        for (String s : texts)
        {
            String r;
            try { ByteBuffer b = t.fromString(s); t.validate(b); r = h(b); } catch (Throwable e) { r = "bad"; }
            System.out.println(t.asCQL3Type() + "|" + esc(s) + "|" + r);
        }
    }

    static void print()
    {
        System.out.println("# MARSHAL|VALUE|CQL literal|JSON: CQL3Type.toCQLLiteral, AbstractType.toJSONString; `!` where it throws; \\xNN and \\\\ are escapes");
        List<AbstractType<?>> all = new ArrayList<>(SCALARS);
        all.addAll(nested());
        all.removeIf(t -> t instanceof CompositeType);
        all.add(udt("My Type", false, "a", Int32Type.instance, "B c", UTF8Type.instance, "select", TimestampType.instance));
        all.add(map(list(UTF8Type.instance), BytesType.instance));
        all.add(map(BooleanType.instance, DoubleType.instance));
        all.add(map(TimestampType.instance, DurationType.instance));
        all.add(CounterColumnType.instance);
        for (AbstractType<?> t : all)
        {
            List<ByteBuffer> vs = t instanceof CounterColumnType ? List.of(ByteBufferUtil.bytes(5L), ByteBufferUtil.bytes(-5L)) : sample(t, 4);
            for (ByteBuffer v : vs)
                if (v.remaining() < 64)
                    System.out.println(t + "|" + h(v) + "|" + attempt(() -> t.asCQL3Type().toCQLLiteral(v.duplicate())) + "|" + attempt(() -> t.toJSONString(v.duplicate(), ProtocolVersion.V5)));
        }
    }

    static String attempt(Supplier<String> s)
    {
        try { return esc(s.get()).replace("|", "\\x7c"); } catch (Throwable e) { return "!"; }
    }

    static void json()
    {
        System.out.println("# CQL type|JSON|VALUE, null or bad, by AbstractType.fromJSONObject");
        UserType u = udt("t", false, "a", Int32Type.instance, "B c", UTF8Type.instance);
        json(Int32Type.instance, "1", "-1", "\"1\"", "1.0", "1e3", "2147483648", "true", "\"\"", "[1]", "\"x\"");
        json(LongType.instance, "1", "9223372036854775807", "9223372036854775808", "\"9\"", "1.5");
        json(ByteType.instance, "127", "128", "\"5\"");
        json(ShortType.instance, "32767", "32768");
        json(IntegerType.instance, "1", "123456789012345678901234567890", "\"7\"", "1.5");
        json(DecimalType.instance, "1", "1.50", "\"1.50\"", "1e10", "true");
        json(FloatType.instance, "1.5", "\"1.5\"", "\"NaN\"", "true");
        json(DoubleType.instance, "1.5", "1", "\"Infinity\"");
        json(BooleanType.instance, "true", "false", "\"true\"", "\"FALSE\"", "1");
        json(UTF8Type.instance, "\"a\\u00e9\\n\"", "1", "\"\"");
        json(AsciiType.instance, "\"a\"", "\"\\u00e9\"");
        json(BytesType.instance, "\"0x00ff\"", "\"00ff\"", "\"0x\"", "\"0x0\"", "1");
        json(TimestampType.instance, "0", "\"2011-02-03 04:05:06.789Z\"", "\"2011-02-03\"", "1.5");
        json(SimpleDateType.instance, "\"2011-02-03\"", "5");
        json(TimeType.instance, "\"01:02:03\"", "5");
        json(DurationType.instance, "\"1mo2d\"", "5");
        json(InetAddressType.instance, "\"1.2.3.4\"", "\"::1\"", "1");
        json(UUIDType.instance, "\"123e4567-e89b-12d3-a456-426614174000\"", "1");
        json(list(Int32Type.instance), "[]", "[1, 2]", "[1, null]", "\"[1]\"", "[\"1\"]", "{}", "1");
        json(set(Int32Type.instance), "[2, 1, 2]", "[null]");
        json(map(Int32Type.instance, UTF8Type.instance), "{\"2\": \"b\", \"1\": \"a\"}", "{}", "{\"x\": \"b\"}", "{\"1\": null}", "[]");
        json(map(list(Int32Type.instance), UTF8Type.instance), "{\"[1]\": \"b\"}", "{\"1\": \"b\"}");
        json(tuple(Int32Type.instance, UTF8Type.instance), "[1, \"a\"]", "[1]", "[null, \"a\"]", "[1, \"a\", 2]", "[]", "{}");
        json(u, "{\"a\": 1}", "{\"A\": 1}", "{\"\\\"A\\\"\": 1}", "{\"\\\"B c\\\"\": \"x\", \"a\": null}", "{\"b c\": \"x\"}", "{}", "[]");
        json(VectorType.getInstance(FloatType.instance, 2), "[1, 2.5]", "[1]", "[1, null]", "[1, 2, 3]");
    }

    static void json(AbstractType<?> t, String... texts)
    {
        for (String s : texts)
        {
            String r;
            try
            {
                Term term = t.fromJSONObject(JsonUtils.decodeJson(s));
                ByteBuffer b = term == null ? null : term.bindAndGet(QueryOptions.DEFAULT);
                if (b != null) t.validate(b.duplicate());
                r = b == null ? "null" : h(b);
            }
            catch (Throwable e) { r = "bad"; }
            System.out.println(t.asCQL3Type() + "|" + s + "|" + r);
        }
    }

    static void timeuuid()
    {
        System.out.println("# `bounds MILLIS MIN MAX`: TimeUUID.minAtUnixMillis and maxAtUnixMillis; `time UUID MILLIS MICROS`: what is in one");
        List<Long> millis = new ArrayList<>(List.of(0L, 1L, -1L, 999L, 1000L, 1769904000123L, -12219292800000L, 4102444800000L, 103072857660683L));
        for (int i = 0; i < 20; i++) millis.add((random.nextLong() >>> 1) % 4102444800000L);
        for (long m : millis) System.out.println("bounds " + m + " " + TimeUUID.minAtUnixMillis(m) + " " + TimeUUID.maxAtUnixMillis(m));
        List<Long> ticks = new ArrayList<>(List.of(0L, 1L, 9999L, 10000L, 122192927999999999L, 122192928000000000L, 122192928000000001L, 122192927999990000L, 122192927999990001L, (1L << 60) - 1));
        for (int i = 0; i < 20; i++) ticks.add(random.nextLong() >>> 4 + random.nextInt(8));
        for (long t : ticks)
        {
            TimeUUID id = new TimeUUID(t, random.nextLong());
            System.out.println("time " + id + " " + id.unix(java.util.concurrent.TimeUnit.MILLISECONDS) + " " + id.unixMicros());
        }
    }
}
