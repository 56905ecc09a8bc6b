package io.floeberg.kafka;

import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Range;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import java.util.Map;
import javax.net.ssl.SSLSocketFactory;

/** The plugin's settings, as the broker hands them over with its prefix taken off. */
final class DoorSettings {
    static final String URL = "floeberg.url";
    static final String TOKEN = "floeberg.token";
    static final String TOKEN_FILE = "floeberg.token.file";
    static final String CA_FILE = "floeberg.ca.file";
    static final String CONNECT_TIMEOUT_MS = "floeberg.connect.timeout.ms";
    static final String READ_TIMEOUT_MS = "floeberg.read.timeout.ms";
    static final String COPY_TIMEOUT_MS = "floeberg.copy.timeout.ms";

    private static final ConfigDef DEFINITION = new ConfigDef()
        .define(URL, Type.STRING, Importance.HIGH, "Where the daemon's log door listens, http://host:port or https://host:port.")
        .define(TOKEN, Type.PASSWORD, null, Importance.HIGH, "One of the tokens that the daemon's [log_door] settings name.")
        .define(TOKEN_FILE, Type.STRING, null, Importance.HIGH,
            "A file with that token, which counts before the token itself; read for each request, so that another token needs no restart.")
        .define(CA_FILE, Type.STRING, null, Importance.MEDIUM,
            "PEM file of the authorities that the log door's certificate is trusted by; without it those that the JVM trusts.")
        .define(CONNECT_TIMEOUT_MS, Type.INT, 2_000, Range.between(1, 600_000), Importance.LOW, "Bound of a connection attempt.")
        .define(READ_TIMEOUT_MS, Type.INT, 5_000, Range.between(1, 600_000), Importance.LOW, "Longest silence in an answer to a read.")
        .define(COPY_TIMEOUT_MS, Type.INT, 30_000, Range.between(1, 3_600_000), Importance.MEDIUM,
            "How long one copy waits for its range to be verified before the broker is told to come back.");

    final String url;
    private final Password token;
    /** Counts where both are set: a broker's file may have the token from before. */
    private final Path tokenFile;
    /** Null where the JVM's own will do. */
    final SSLSocketFactory sockets;
    final int connectTimeoutMs;
    final int readTimeoutMs;
    final int copyTimeoutMs;

    /** @throws ConfigException when a setting is missing or makes no sense; the message says what would be right */
    DoorSettings(Map<String, ?> configs) {
        AbstractConfig config = new AbstractConfig(DEFINITION, configs, false);
        url = checkedUrl(config.getString(URL));
        token = config.getPassword(TOKEN);
        tokenFile = config.getString(TOKEN_FILE) == null ? null : Paths.get(config.getString(TOKEN_FILE));
        if (token == null && tokenFile == null)
            throw new ConfigException("Set " + TOKEN_FILE + ", or " + TOKEN + ": floeberg plugin writes the file.");
        if (token != null && !fitsAHeader(token.value()))
            throw new ConfigException(TOKEN, "[hidden]", "the token must be printable ASCII without spaces, and not empty");
        String caFile = config.getString(CA_FILE);
        try {
            sockets = caFile == null ? null : TrustedAuthorities.socketFactory(Paths.get(caFile));
        } catch (IOException | GeneralSecurityException e) {
            throw new ConfigException(CA_FILE, caFile, "it must be a PEM file of certificates: " + e.getMessage());
        }
        connectTimeoutMs = config.getInt(CONNECT_TIMEOUT_MS);
        readTimeoutMs = config.getInt(READ_TIMEOUT_MS);
        copyTimeoutMs = config.getInt(COPY_TIMEOUT_MS);
    }

    /** @throws IOException when the token's file can't be read, or has none in it */
    String token() throws IOException {
        if (tokenFile == null)
            return token.value();
        String found;
        try {
            found = Files.readString(tokenFile).strip();
        } catch (IOException e) {
            throw new IOException("The log door's token can't be read from " + tokenFile + " (" + TOKEN_FILE
                + "). Next: let the broker's user read it, or write it again with floeberg plugin.", e);
        }
        if (!fitsAHeader(found))
            throw new IOException("There is no token in " + tokenFile + " (" + TOKEN_FILE + "). Next: write it with floeberg plugin.");
        return found;
    }

    private static boolean fitsAHeader(String token) {
        return !token.isEmpty() && token.chars().allMatch(character -> character > ' ' && character <= '~');
    }

    private static String checkedUrl(String text) {
        try {
            URI uri = new URI(text.strip());
            boolean http = "http".equals(uri.getScheme()) || "https".equals(uri.getScheme());
            if (http && uri.getHost() != null && uri.getQuery() == null && uri.getFragment() == null)
                return uri.toString().replaceAll("/+$", "");
        } catch (URISyntaxException e) {
            // Told below, in the same words as every other bad URL.
        }
        throw new ConfigException(URL, text, "it must be the address of the daemon's log door, like http://127.0.0.1:7810");
    }
}
