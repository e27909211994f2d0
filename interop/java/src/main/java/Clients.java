import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.stream.Collectors;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * The Java driver's programs of the interop tests: registers (test_conditional_drivers.py) and
 * login (test_driver_security.py).
 *
 * Clients login HOST PORT | Clients registers HOST PORT SECONDS CLIENTS FILE
 */
public class Clients
{
    public static void main(String[] arguments) throws Exception
    {
        CqlSessionBuilder builder = builder(arguments[1], Integer.parseInt(arguments[2]));
        if (arguments[0].equals("login"))
            login(builder);
        else if (arguments[0].equals("registers"))
            try (CqlSession session = builder.withKeyspace("registers").build())
            {
                new Registers(session).run(Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]), Path.of(arguments[5]));
            }
        else
            throw new IllegalArgumentException("there is no command " + arguments[0]);
    }

    /** Returns the session that the arguments and the environment ask for. */
    static CqlSessionBuilder builder(String host, int port) throws Exception
    {
        var config = DriverConfigLoader.programmaticBuilder()
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(20))
            .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, Duration.ofSeconds(20))
            // A node that was killed is back within a second.
            .withClass(DefaultDriverOption.RECONNECTION_POLICY_CLASS,
                       com.datastax.oss.driver.internal.core.connection.ConstantReconnectionPolicy.class)
            .withDuration(DefaultDriverOption.RECONNECTION_BASE_DELAY, Duration.ofMillis(100));
        CqlSessionBuilder builder = CqlSession.builder().addContactPoint(new InetSocketAddress(host, port))
            .withLocalDatacenter("datacenter1").withConfigLoader(config.build());
        String user = System.getenv("CQL_USER"), authority = System.getenv("CQL_AUTHORITY");
        if (user != null)
            builder.withAuthCredentials(user, System.getenv("CQL_PASSWORD"));
        if (authority != null)
            builder.withSslContext(context(Path.of(authority), System.getenv("CQL_CERTIFICATE")));
        return builder;
    }

    static SSLContext context(Path authority, String own) throws Exception
    {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        trusted.setCertificateEntry("authority", certificate(authority));
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        KeyManagerFactory keys = null;
        if (own != null)
        {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            store.setKeyEntry("own", key(Path.of(own)), new char[0], new Certificate[] { certificate(Path.of(own)) });
            keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            keys.init(store, new char[0]);
        }
        String version = System.getenv("CQL_TLS");
        if (version != null)
            System.setProperty("jdk.tls.client.protocols", "TLSv" + version);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys == null ? null : keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    static Certificate certificate(Path pem) throws Exception
    {
        try (InputStream in = Files.newInputStream(pem))
        {
            return CertificateFactory.getInstance("X.509").generateCertificate(in);
        }
    }

    /** Reads a PKCS #8 key of RSA. */
    static PrivateKey key(Path pem) throws Exception
    {
        String text = Files.readString(pem), begin = "-----BEGIN PRIVATE KEY-----";
        int from = text.indexOf(begin) + begin.length();
        String encoded = text.substring(from, text.indexOf("-----END PRIVATE KEY-----"));
        return KeyFactory.getInstance("RSA").generatePrivate(new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(encoded)));
    }

    /** Connects, and prints the node's version or the driver's errors. */
    static void login(CqlSessionBuilder builder)
    {
        try (CqlSession session = builder.build())
        {
            System.out.println("ok: " + session.execute("SELECT release_version FROM system.local").one().getString(0));
        }
        catch (AllNodesFailedException e)
        {
            List<String> causes = new ArrayList<>();
            e.getAllErrors().values().forEach(list -> list.forEach(one -> {
                for (Throwable cause = one; cause != null; cause = cause.getCause())
                    causes.add(cause.toString());
            }));
            System.out.println("error: " + causes.stream().map(one -> one.replace('\n', ' ')).collect(Collectors.joining("; ")));
        }
    }
}
