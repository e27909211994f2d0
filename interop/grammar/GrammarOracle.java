import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.CQLFragmentParser;
import org.apache.cassandra.cql3.CqlParser;
import org.apache.cassandra.exceptions.SyntaxException;

/**
 * Asks Cassandra's own parser whether statements are CQL.
 *
 * GrammarOracle cases FILE...  compares with the verdicts recorded in data-driven test files; exit status 1 if any differs.
 * GrammarOracle verdicts       statements on stdin, each ended by a NUL; prints one verdict a line.
 */
public class GrammarOracle
{
    /** Null if the statement parses, or what the parser says. Anything but a SyntaxException comes after the grammar. */
    static String complaint(String statement)
    {
        try
        {
            CQLFragmentParser.parseAny(CqlParser::query, statement, "query");
            return null;
        }
        catch (SyntaxException e)
        {
            return e.getMessage().replace('\n', ' ');
        }
        catch (RuntimeException e)
        {
            return e.getClass().getName().startsWith("org.apache.cassandra.exceptions.") ? null : e.toString();
        }
        catch (StackOverflowError e)
        {
            return "StackOverflowError";
        }
    }

    public static void main(String[] args) throws IOException
    {
        DatabaseDescriptor.clientInitialization();
        if (args.length == 1 && args[0].equals("verdicts"))
            verdicts();
        else if (args.length > 1 && args[0].equals("cases"))
            System.exit(cases(Arrays.asList(args).subList(1, args.length)) ? 0 : 1);
        else
        {
            System.err.println("usage: GrammarOracle cases FILE... | verdicts");
            System.exit(2);
        }
    }

    static void verdicts() throws IOException
    {
        String input = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, StandardCharsets.UTF_8);
        for (int start = 0, end; (end = input.indexOf('\0', start)) >= 0; start = end + 1)
        {
            String complaint = complaint(input.substring(start, end));
            out.println(complaint == null ? "accept" : "reject " + complaint);
        }
        out.flush();
    }

    /** Cases are separated by blank lines: a statement, a line `----`, what Espalier makes of it. See tests/grammar_cases.rs. */
    static boolean cases(List<String> files) throws IOException
    {
        int compared = 0, different = 0;
        for (String file : files)
        {
            // Files of extensions hold what Espalier takes and Cassandra does not.
            boolean extensions = Path.of(file).getFileName().toString().startsWith("extension");
            for (String text : Files.readString(Path.of(file)).split("\n\n+"))
            {
                int bar = text.indexOf("\n----\n");
                if (bar < 0)
                    continue;
                String statement = text.substring(0, bar).replaceAll("(?m)^#.*\n", "");
                boolean accepted = !text.substring(bar + 6).startsWith("error: ");
                String complaint = complaint(statement);
                compared++;
                if ((complaint == null) == (accepted != extensions))
                    continue;
                different++;
                System.out.printf("%s: Espalier %s, Cassandra %s: %s%n", Path.of(file).getFileName(),
                                  accepted ? "accepts" : "rejects",
                                  complaint == null ? "accepts" : "rejects (" + complaint + ')', statement);
            }
        }
        System.out.printf("%d statements compared, %d differences%n", compared, different);
        return different == 0;
    }
}
