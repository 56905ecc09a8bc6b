package io.floeberg.kafka;

import org.apache.kafka.common.config.ConfigException;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

final class SettingsTest {
    private static ConfigException refused(Map<String, ?> configs) {
        return Expect.raised(ConfigException.class, () -> new DoorSettings(configs));
    }

    private static Map<String, String> good(String... more) {
        Map<String, String> configs = new HashMap<>(Map.of("floeberg.url", "http://127.0.0.1:7810", "floeberg.token", "secret"));
        for (int i = 0; i < more.length; i += 2)
            configs.put(more[i], more[i + 1]);
        return configs;
    }

    @Test
    void url_and_token_are_enough() {
        DoorSettings settings = new DoorSettings(good());
        Expect.equal("http://127.0.0.1:7810", settings.url);
        Expect.equal(30_000, settings.copyTimeoutMs);
    }

    @Test
    void slash_at_the_end_of_the_url_is_left_out() {
        Expect.equal("https://door:1/under", new DoorSettings(good("floeberg.url", "https://door:1/under/")).url);
    }

    @Test
    void settings_of_the_broker_beside_ours_are_ignored() throws IOException {
        Expect.equal("secret", new DoorSettings(good("broker.id", "7", "cluster.id", "x")).token());
    }

    @Test
    void missing_url_is_named() {
        Expect.contains("floeberg.url", refused(Map.of("floeberg.token", "secret")));
    }

    @Test
    void missing_token_is_named() {
        Expect.contains("floeberg.token", refused(Map.of("floeberg.url", "http://h:1")));
    }

    @Test
    void file_of_the_token_counts_before_a_token_that_is_set_as_well() throws IOException {
        Path file = Files.createTempFile("floeberg", ".token");
        Files.writeString(file, "newer\n");
        Expect.equal("newer", new DoorSettings(good("floeberg.token.file", file.toString())).token());
        Files.delete(file);
    }

    @Test
    void authorities_that_are_no_certificates_are_refused() throws IOException {
        Path empty = Files.createTempFile("floeberg", ".pem");
        Expect.contains("there is no certificate in it", refused(good("floeberg.ca.file", empty.toString())));
        Files.delete(empty);
        Expect.contains("floeberg.ca.file", refused(good("floeberg.ca.file", empty.toString())));
    }

    @Test
    void url_that_is_none_is_refused_with_an_example() {
        for (String url : new String[] {"127.0.0.1:7810", "ftp://h:1", "http://", "http://h:1/?a=b", "not a url"})
            Expect.contains("like http://127.0.0.1:7810", refused(good("floeberg.url", url)));
    }

    @Test
    void token_that_a_header_cannot_carry_is_refused_and_not_shown() {
        for (String token : new String[] {"", "two words", "line\nbreak", "schl\u00fcssel"}) {
            ConfigException error = refused(good("floeberg.token", token));
            Expect.contains("floeberg.token", error);
            Expect.holds(token.isEmpty() || !error.getMessage().contains(token), "the token is in the message");
        }
    }

    @Test
    void timeout_that_is_no_number_or_out_of_range_is_refused() {
        Expect.contains("floeberg.copy.timeout.ms", refused(good("floeberg.copy.timeout.ms", "soon")));
        Expect.contains("floeberg.read.timeout.ms", refused(good("floeberg.read.timeout.ms", "0")));
    }
}
