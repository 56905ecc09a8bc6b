package io.floeberg.kafka;

import org.apache.kafka.server.log.remote.storage.RemoteStorageException;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

final class CopyTest implements AutoCloseable {
    private static final String PARTITION = "/v1/log/" + Segments.TOPIC_ID + "/3";

    private final FakeDoor door = new FakeDoor();

    @Override
    public void close() {
        door.close();
    }

    private Object copy(FloebergRemoteStorageManager plugin) throws RemoteStorageException, IOException {
        return plugin.copyLogSegmentData(Segments.segment(100, 199), Segments.data("0\n1\n5 0\n", new byte[] {1, 2, 3}));
    }

    private RemoteStorageException refused(FloebergRemoteStorageManager plugin) {
        return Expect.raised(RemoteStorageException.class, () -> copy(plugin));
    }

    @Test
    void copy_asks_for_the_half_open_range_and_needs_no_custom_metadata() throws Exception {
        door.answer = exchange -> FakeDoor.bytes(exchange, "{}".getBytes());
        Expect.equal(Optional.empty(), copy(door.plugin()));
        Expect.holds(door.asked.get(0).startsWith("POST " + PARTITION + "/copy?start=100&end=200&wait_ms="), door.asked.get(0));
    }

    @Test
    void copy_sends_the_leader_epochs_and_the_producer_snapshot() throws Exception {
        door.answer = exchange -> FakeDoor.bytes(exchange, "{}".getBytes());
        copy(door.plugin());
        ByteBuffer body = ByteBuffer.wrap(door.bodies.get(0));
        Expect.equal(0x464c4158, body.getInt());
        Expect.equal(1, body.getInt());
        byte[] epochs = new byte[body.getInt()];
        body.get(epochs);
        Expect.equal("0\n1\n5 0\n", new String(epochs));
        Expect.equal(3, body.getInt());
        Expect.equal(3 + 4, body.remaining());
    }

    @Test
    void range_that_is_not_verified_yet_is_asked_for_until_it_is() throws Exception {
        door.answer = exchange -> {
            if (door.asked.size() < 3)
                FakeDoor.status(exchange, 503, "not verified in the table yet");
            else
                FakeDoor.bytes(exchange, "{}".getBytes());
        };
        copy(door.plugin(Map.of("floeberg.copy.timeout.ms", "10000")));
        Expect.equal(3, door.asked.size());
    }

    @Test
    void range_that_stays_unverified_ends_with_the_doors_words_after_the_copy_timeout() {
        door.answer = exchange -> FakeDoor.status(exchange, 503, "not verified in the table yet");
        Expect.contains("not verified in the table yet", refused(door.plugin()));
    }

    @Test
    void damaged_table_is_told_and_the_broker_keeps_the_segment() {
        door.answer = exchange -> FakeDoor.status(exchange, 409, "a file is damaged");
        RemoteStorageException error = refused(door.plugin());
        Expect.contains("a file is damaged", error);
        Expect.contains("The broker keeps offsets [100, 200) of orders-3", error);
    }

    @Test
    void wrong_token_is_not_tried_again_and_names_the_setting() {
        RemoteStorageException error = refused(door.plugin(Map.of("floeberg.token", "wrong", "floeberg.copy.timeout.ms", "60000")));
        Expect.contains("floeberg.token", error);
        Expect.equal(1, door.asked.size());
    }

    @Test
    void token_that_changes_in_its_file_counts_from_the_next_request() throws Exception {
        Path file = Files.createTempFile("floeberg", ".token");
        FloebergRemoteStorageManager plugin = door.pluginWith(Map.of("floeberg.token.file", file.toString()));
        Expect.contains("There is no token in " + file, refused(plugin));
        Files.writeString(file, "wrong\n");
        Expect.contains("floeberg.token.file", refused(plugin));
        Files.writeString(file, "secret\n");
        door.answer = exchange -> FakeDoor.bytes(exchange, "{}".getBytes());
        copy(plugin);
        Files.delete(file);
        Expect.contains("let the broker's user read it", refused(plugin));
    }

    @Test
    void door_with_a_certificate_is_asked_only_where_its_authority_is_trusted() throws Exception {
        try (FakeDoor guarded = new FakeDoor(SelfSigned.get().context())) {
            guarded.answer = exchange -> FakeDoor.bytes(exchange, "{}".getBytes());
            Expect.contains("certificat", refused(guarded.plugin()));
            Expect.equal(0, guarded.asked.size());
            copy(guarded.plugin(Map.of("floeberg.ca.file", SelfSigned.get().pem().toString())));
            Expect.equal(1, guarded.asked.size());
        }
    }

    @Test
    void daemon_that_is_away_is_waited_for_only_as_long_as_the_copy_timeout() {
        FloebergRemoteStorageManager plugin = door.plugin();
        door.close();
        refused(plugin);
    }

    @Test
    void daemon_that_stays_silent_is_given_up() {
        door.answer = exchange -> pause(20_000);
        long startNs = System.nanoTime();
        refused(door.plugin());
        Expect.holds(System.nanoTime() - startNs < 10_000_000_000L, "a silent daemon held the copy");
    }

    @Test
    void interrupted_copy_ends_and_stays_interrupted() {
        door.answer = exchange -> FakeDoor.status(exchange, 503, "later");
        Thread.currentThread().interrupt();
        refused(door.plugin(Map.of("floeberg.copy.timeout.ms", "60000")));
        Expect.holds(Thread.interrupted(), "the interrupt was swallowed");
    }

    @Test
    void delete_names_the_range() throws Exception {
        door.answer = exchange -> exchange.sendResponseHeaders(204, -1);
        door.plugin().deleteLogSegmentData(Segments.segment(100, 199));
        Expect.equal("DELETE " + PARTITION + "?start=100&end=200", door.asked.get(0));
    }

    @Test
    void delete_that_fails_is_told_so_that_the_broker_tries_again() {
        door.answer = exchange -> FakeDoor.status(exchange, 503, "busy");
        Expect.raised(RemoteStorageException.class, () -> {
            door.plugin().deleteLogSegmentData(Segments.segment(100, 199));
            return null;
        });
    }

    private static void pause(long durationMs) {
        try {
            Thread.sleep(durationMs);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
