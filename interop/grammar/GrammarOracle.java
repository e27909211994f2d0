import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.function.Function;
import java.util.stream.Collectors;

import org.antlr.runtime.RecognitionException;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.CQLFragmentParser;
import org.apache.cassandra.cql3.CQLStatement;
import org.apache.cassandra.cql3.CqlParser;
import org.apache.cassandra.cql3.statements.SelectStatement;
import org.apache.cassandra.cql3.statements.schema.CreateTableStatement;
import org.apache.cassandra.cql3.statements.schema.CreateTypeStatement;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.exceptions.CassandraException;
import org.apache.cassandra.exceptions.SyntaxException;
import org.apache.cassandra.schema.*;
import org.apache.cassandra.service.ClientState;

/**
 * Asks Cassandra's own parser about statements.
 *
 * GrammarOracle cases FILE...  compares with the verdicts recorded in data-driven test files; exit
 *                              status 1 if any differs.
 * GrammarOracle names FILE     compares with the names of result columns recorded there, of
 *                              selections from ks.t (see TABLE).
 * GrammarOracle verdicts       reads statements from standard input, each ended by a NUL; prints
 *                              one verdict a line.
 */
public class GrammarOracle
{
    static final String TYPE = "CREATE TYPE ks.u (f int, \"G h\" text)";
    static final String TABLE =
        "CREATE TABLE ks.t (k int, \"Kc\" text, v int, w bigint, \"V w\" int, s text, b blob, l list<int>, se set<int>, " +
        "m map<text, int>, u u, fu frozen<u>, t tuple<int, text>, vec vector<float, 2>, ts timestamp, d date, tu timeuuid, " +
        "du duration, count int, PRIMARY KEY (k, \"Kc\"))";

    public static void main(String[] args) throws Exception
    {
        DatabaseDescriptor.clientInitialization(false);
        DatabaseDescriptor.setPartitionerUnsafe(Murmur3Partitioner.instance);
        boolean same = true;
        if (args.length > 1 && args[0].equals("cases"))
            same = cases(Arrays.asList(args).subList(1, args.length));
        else if (args.length == 2 && args[0].equals("names"))
            same = names(args[1]);
        else if (args.length == 1 && args[0].equals("verdicts"))
            verdicts();
        else
        {
            System.err.println("usage: GrammarOracle cases FILE... | names FILE | verdicts");
            System.exit(2);
        }
        System.exit(same ? 0 : 1);
    }

    /**
     * Returns `accept`, `reject` and the reason, or `unknown`.
     *
     * The verdict is `unknown` if the parser complained about the meaning before it saw the whole
     * syntax, for example about a second primary key or a missing class, or if it failed there.
     */
    static String verdict(String statement)
    {
        try
        {
            CQLFragmentParser.parseAnyUnhandled(CqlParser::query, statement);
            return "accept";
        }
        catch (SyntaxException e)
        {
            String message = e.getMessage().replace('\n', ' ');
            boolean isMeaning = message.contains("Unable to find abstract-type class")
                                || message.contains("is not a valid JMX object name")
                                || message.contains("does not support any of the requested permissions");
            return isMeaning ? "unknown" : "reject " + message;
        }
        catch (CassandraException | NoSuchElementException | NullPointerException e)
        {
            return "unknown";
        }
        catch (RecognitionException | RuntimeException | StackOverflowError e)
        {
            return "reject " + e.toString().replace('\n', ' ');
        }
    }

    static void verdicts() throws IOException
    {
        String input = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, StandardCharsets.UTF_8);
        for (int start = 0, end; (end = input.indexOf('\0', start)) >= 0; start = end + 1)
            out.println(verdict(input.substring(start, end)));
        out.flush();
    }

    static boolean cases(List<String> files) throws IOException
    {
        boolean same = true;
        for (String file : files)
        {
            // This file holds the statements with known differences.
            boolean known = Path.of(file).getFileName().toString().equals("differences.txt");
            same &= compare(file, output -> output.startsWith("error: ") == known ? "accept" : "reject", GrammarOracle::verdict);
        }
        return same;
    }

    static boolean names(String file) throws Exception
    {
        Schema.instance.transform(SchemaTransformations.addKeyspace(KeyspaceMetadata.create("ks", KeyspaceParams.simple(1)), true));
        Types.RawBuilder types = Types.rawBuilder("ks");
        ((CreateTypeStatement.Raw) CQLFragmentParser.parseAnyUnhandled(CqlParser::query, TYPE)).addToRawBuilder(types);
        Schema.instance.transform(SchemaTransformations.addTypes(types.build(), true));
        CreateTableStatement table = (CreateTableStatement) prepare(TABLE);
        Types built = Schema.instance.getKeyspaceMetadata("ks").types;
        Schema.instance.transform(SchemaTransformations.addTable(table.builder(built).build(), true));
        return compare(file, Function.identity(), statement -> {
            try
            {
                SelectStatement select = (SelectStatement) prepare(statement);
                return select.getResultMetadata().names.stream().map(c -> c.name.toString()).collect(Collectors.joining("\n"));
            }
            catch (RecognitionException | RuntimeException e)
            {
                return e.toString();
            }
        });
    }

    static CQLStatement prepare(String statement) throws RecognitionException
    {
        return CQLFragmentParser.parseAnyUnhandled(CqlParser::query, statement).prepare(ClientState.forInternalCalls("ks"));
    }

    /**
     * Compares the recorded output of each case with Cassandra's. Cases are separated by blank
     * lines: a statement, a line `----`, an output; see crates/cql/tests/all/support/cases.rs.
     */
    static boolean compare(String file, Function<String, String> recorded, Function<String, String> cassandra) throws IOException
    {
        int compared = 0, different = 0;
        for (String text : Files.readString(Path.of(file)).split("\n\n+"))
        {
            int bar = text.indexOf("\n----\n");
            if (bar < 0)
                continue;
            String statement = text.substring(0, bar).replaceAll("(?m)^#.*\n", "");
            String expected = recorded.apply(text.substring(bar + 6).stripTrailing());
            String actual = cassandra.apply(statement);
            compared++;
            if (actual.equals(expected) || actual.startsWith("reject ") && expected.equals("reject") || actual.equals("unknown"))
                continue;
            different++;
            System.out.printf("%s: %s%n  recorded:  %s%n  Cassandra: %s%n", file, statement, expected, actual);
        }
        System.out.printf("%s: %d statements, %d differences%n", file, compared, different);
        return compared > 0 && different == 0;
    }
}
