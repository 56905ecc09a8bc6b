package io.floeberg.kafka;

import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Range;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigException;

import java.net.URI;
import java.net.URISyntaxException;
import java.util.Map;

/** The plugin's settings, as the broker hands them over with its prefix taken off. */
final class DoorSettings {
    static final String URL = "floeberg.url";
    static final String TOKEN = "floeberg.token";
    static final String CONNECT_TIMEOUT_MS = "floeberg.connect.timeout.ms";
    static final String READ_TIMEOUT_MS = "floeberg.read.timeout.ms";
    static final String COPY_TIMEOUT_MS = "floeberg.copy.timeout.ms";

    private static final ConfigDef DEFINITION = new ConfigDef()
        .define(URL, Type.STRING, Importance.HIGH, "Where the daemon's log door listens, http://host:port.")
        .define(TOKEN, Type.PASSWORD, Importance.HIGH, "The token that the daemon's [log_door] setting names.")
        .define(CONNECT_TIMEOUT_MS, Type.INT, 2_000, Range.between(1, 600_000), Importance.LOW, "Bound of a connection attempt.")
        .define(READ_TIMEOUT_MS, Type.INT, 5_000, Range.between(1, 600_000), Importance.LOW, "Longest silence in an answer to a read.")
        .define(COPY_TIMEOUT_MS, Type.INT, 30_000, Range.between(1, 3_600_000), Importance.MEDIUM,
            "How long one copy waits for its range to be verified before the broker is told to come back.");

    final String url;
    final String token;
    final int connectTimeoutMs;
    final int readTimeoutMs;
    final int copyTimeoutMs;

    /** @throws ConfigException when a setting is missing or makes no sense; the message says what would be right */
    DoorSettings(Map<String, ?> configs) {
        AbstractConfig config = new AbstractConfig(DEFINITION, configs, false);
        url = checkedUrl(config.getString(URL));
        token = config.getPassword(TOKEN).value();
        if (token.isBlank() || token.chars().anyMatch(character -> character <= ' ' || character > '~'))
            throw new ConfigException(TOKEN, "[hidden]", "the token must be printable ASCII without spaces, and not empty");
        connectTimeoutMs = config.getInt(CONNECT_TIMEOUT_MS);
        readTimeoutMs = config.getInt(READ_TIMEOUT_MS);
        copyTimeoutMs = config.getInt(COPY_TIMEOUT_MS);
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
