package io.floeberg.kafka;

import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;

/** Records of the segment of offsets 100 to 3999, in batches of 10 records of 1000 bytes. */
final class FetchTest implements AutoCloseable {
    private static final long FIRST = 100;
    private static final long LAST = 3_999;
    private static final int EACH = 10;
    private static final byte[] WHOLE = Segments.batches(FIRST, LAST, EACH);
    private static final int BATCH_BYTES = Segments.batch(FIRST, EACH).length;

    private final FakeDoor door = new FakeDoor();

    FetchTest() {
        door.answer = exchange -> FakeDoor.bytes(exchange, window(exchange.getRequestURI()));
    }

    @Override
    public void close() {
        door.close();
    }

    private static long number(URI uri, String name) {
        for (String part : uri.getQuery().split("&"))
            if (part.startsWith(name + "="))
                return Long.parseLong(part.substring(name.length() + 1));
        throw new AssertionError(name + " is not in " + uri);
    }

    /** What the door answers: whole batches, ending with the one that reaches max_bytes. */
    private static byte[] window(URI uri) {
        int begin = (int) ((number(uri, "from") - FIRST) / EACH) * BATCH_BYTES;
        int batches = (int) ((number(uri, "max_bytes") + BATCH_BYTES - 1) / BATCH_BYTES);
        return Arrays.copyOfRange(WHOLE, begin, Math.min(WHOLE.length, begin + batches * BATCH_BYTES));
    }

    private InputStream fetch(FloebergRemoteStorageManager plugin, int position) throws RemoteStorageException {
        return plugin.fetchLogSegment(Segments.segment(FIRST, LAST), position);
    }

    private byte[] read(int position) throws Exception {
        try (InputStream in = fetch(door.plugin(), position)) {
            return in.readAllBytes();
        }
    }

    private KafkaStorageException broken() {
        return Expect.raised(KafkaStorageException.class, () -> read(0));
    }

    /** The door answers with these bytes in place of the segment. */
    private void answerWith(byte[] bytes) {
        door.answer = exchange -> FakeDoor.bytes(exchange, bytes);
    }

    private static byte[] joined(byte[]... parts) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (byte[] part : parts)
            bytes.writeBytes(part);
        return bytes.toByteArray();
    }

    @Test
    void whole_segment_is_read_window_by_window() throws Exception {
        Expect.holds(Arrays.equals(WHOLE, read(0)), "the bytes differ");
        Expect.holds(door.asked.size() > 2, "one window: " + door.asked);
        Expect.holds(door.asked.get(0).endsWith("/records?start=100&end=4000&from=100&max_bytes=1048576"), door.asked.get(0));
    }

    @Test
    void windows_of_one_read_share_a_connection() throws Exception {
        read(0);
        Expect.equal(1L, door.clientPorts.stream().distinct().count());
    }

    @Test
    void position_is_a_relative_offset() throws Exception {
        byte[] bytes = read(3_000);
        Expect.equal(3_100L, ByteBuffer.wrap(bytes).getLong());
        Expect.holds(door.asked.get(0).contains("from=3100"), door.asked.get(0));
    }

    @Test
    void position_within_a_batch_gets_the_batch_that_covers_it() throws Exception {
        Expect.equal(3_100L, ByteBuffer.wrap(read(3_007)).getLong());
    }

    @Test
    void end_position_ends_the_stream_with_the_batch_that_holds_it() throws Exception {
        try (InputStream in = door.plugin().fetchLogSegment(Segments.segment(FIRST, LAST), 0, 25)) {
            Expect.equal(3 * BATCH_BYTES, in.readAllBytes().length);
        }
    }

    @Test
    void door_that_is_silent_is_waited_for_by_one_read_at_a_time_until_it_answers() throws Exception {
        FloebergRemoteStorageManager plugin = door.plugin(Map.of("floeberg.read.timeout.ms", "1000"));
        FakeDoor.Answer speaks = door.answer;
        Semaphore asked = new Semaphore(0);
        CountDownLatch mayAnswer = new CountDownLatch(1);
        door.answer = exchange -> {
            asked.release();
            await(mayAnswer);
            exchange.close();
        };
        Expect.raised(KafkaStorageException.class, () -> fetch(plugin, 0));
        asked.acquire();
        CompletableFuture<Void> probe = CompletableFuture.runAsync(() -> Expect.raised(KafkaStorageException.class, () -> fetch(plugin, 0)));
        asked.acquire();
        for (int read = 0; read < 20; read++) {
            Expect.contains("another read waits", Expect.raised(KafkaStorageException.class, () -> fetch(plugin, 0)));
            Expect.raised(KafkaStorageException.class, () -> plugin.fetchIndex(Segments.segment(FIRST, LAST), IndexType.OFFSET));
        }
        Expect.equal(2, door.asked.size());
        mayAnswer.countDown();
        probe.get();
        door.answer = speaks;
        for (int read = 0; read < 2; read++)
            try (InputStream in = fetch(plugin, 0)) {
                Expect.equal(WHOLE.length, in.readAllBytes().length);
            }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void position_outside_the_segment_is_refused_without_asking() {
        for (int position : new int[] {-1, (int) (LAST - FIRST + 1)})
            Expect.raised(RemoteStorageException.class, () -> fetch(door.plugin(), position));
        Expect.equal(0, door.asked.size());
    }

    @Test
    void broker_that_hangs_up_early_leaves_the_connection_usable_and_sets_the_next_window() throws Exception {
        FloebergRemoteStorageManager plugin = door.plugin();
        for (int i = 0; i < 20; i++)
            try (InputStream in = fetch(plugin, 0)) {
                Expect.equal(2 << 20, in.readNBytes(2 << 20).length);
            }
        Expect.holds(door.asked.get(door.asked.size() - 1).endsWith("max_bytes=2097152"), door.asked.toString());
        Expect.holds(door.asked.size() <= 22, "windows: " + door.asked);
    }

    @Test
    void stream_read_byte_by_byte_gives_the_same_bytes() throws Exception {
        try (InputStream in = fetch(door.plugin(), 3_880)) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            for (int one = in.read(); one >= 0; one = in.read())
                bytes.write(one);
            Expect.holds(Arrays.equals(Arrays.copyOfRange(WHOLE, 388 * BATCH_BYTES, WHOLE.length), bytes.toByteArray()), "the bytes differ");
        }
    }

    @Test
    void gap_that_a_batch_covers_is_no_gap() throws Exception {
        byte[] wide = Segments.batch(FIRST, EACH);
        // The last offset delta is part of what the CRC covers: make it anew.
        ByteBuffer.wrap(wide).putInt(23, (int) (LAST - FIRST));
        java.util.zip.CRC32C crc = new java.util.zip.CRC32C();
        crc.update(wide, 21, wide.length - 21);
        ByteBuffer.wrap(wide).putInt(17, (int) crc.getValue());
        answerWith(wide);
        Expect.equal(wide.length, read(0).length);
    }

    @Test
    void batch_that_is_left_out_is_an_error() {
        ByteArrayOutputStream holed = new ByteArrayOutputStream();
        holed.write(WHOLE, 0, 5 * BATCH_BYTES);
        holed.write(WHOLE, 6 * BATCH_BYTES, WHOLE.length - 6 * BATCH_BYTES);
        answerWith(holed.toByteArray());
        Expect.contains("out of place", broken());
    }

    @Test
    void answer_that_ends_early_is_an_error_and_not_the_end_of_the_segment() {
        door.answer = exchange -> {
            if (door.asked.size() == 1)
                FakeDoor.bytes(exchange, Segments.batches(FIRST, 1_099, EACH));
            else
                FakeDoor.bytes(exchange, new byte[0]);
        };
        Expect.contains("no batch", broken());
    }

    @Test
    void answer_without_a_batch_is_an_error() {
        answerWith(new byte[0]);
        Expect.contains("no batch", broken());
    }

    @Test
    void connection_that_breaks_is_an_error() {
        door.answer = exchange -> FakeDoor.brokenOff(exchange, WHOLE, 100_000);
        broken();
    }

    @Test
    void answer_that_ends_within_a_batch_is_an_error() {
        answerWith(Arrays.copyOf(WHOLE, BATCH_BYTES + BATCH_BYTES / 2));
        Expect.contains("within a batch", broken());
    }

    @Test
    void flipped_bit_is_an_error_before_the_end_of_its_batch_is_handed_out() throws Exception {
        byte[] damaged = WHOLE.clone();
        damaged[5 * BATCH_BYTES + 700] ^= 4;
        answerWith(damaged);
        try (InputStream in = fetch(door.plugin(), 0)) {
            Expect.equal(5 * BATCH_BYTES, in.readNBytes(5 * BATCH_BYTES).length);
            Expect.contains("wrong CRC", Expect.raised(KafkaStorageException.class, () -> in.readNBytes(BATCH_BYTES)));
        }
    }

    @Test
    void doubled_or_swapped_batch_is_an_error() {
        byte[] one = Segments.batch(FIRST, EACH);
        byte[] two = Segments.batch(FIRST + EACH, EACH);
        byte[] three = Segments.batch(FIRST + 2 * EACH, EACH);
        for (byte[] answer : new byte[][] {joined(one, one), joined(one, three, two)}) {
            answerWith(answer);
            Expect.contains("out of place", broken());
        }
    }

    @Test
    void batch_of_other_offsets_is_an_error() {
        answerWith(Segments.batch(FIRST - EACH, EACH));
        Expect.contains("out of place", broken());
        answerWith(Segments.batch(LAST, EACH));
        Expect.contains("out of place", broken());
    }

    @Test
    void bytes_that_are_no_batch_are_an_error() {
        answerWith("<html>you have reached a proxy that means well, and answers everything with 200</html>".getBytes());
        Expect.contains("should be a batch", broken());
    }

    @Test
    void silence_within_an_answer_is_an_error_and_does_not_hold_the_thread() {
        door.answer = exchange -> {
            exchange.sendResponseHeaders(200, 0);
            exchange.getResponseBody().write(WHOLE, 0, 5_000);
            exchange.getResponseBody().flush();
        };
        Expect.contains("timed out", broken());
    }

    @Test
    void busy_door_and_damaged_table_are_retriable_for_clients() {
        for (int status : new int[] {503, 409, 500}) {
            door.answer = exchange -> FakeDoor.status(exchange, status, "words of the door");
            Expect.contains("words of the door", broken());
        }
    }

    @Test
    void daemon_that_is_away_is_retriable_for_clients() {
        FloebergRemoteStorageManager plugin = door.plugin();
        door.close();
        Expect.raised(KafkaStorageException.class, () -> fetch(plugin, 0));
    }

    @Test
    void segment_that_is_gone_for_good_is_not_found() {
        door.answer = exchange -> FakeDoor.status(exchange, 404, "below the log start");
        Expect.raised(RemoteResourceNotFoundException.class, () -> read(0));
    }

    @Test
    void wrong_token_names_the_setting() {
        FloebergRemoteStorageManager plugin = door.plugin(Map.of("floeberg.token", "wrong"));
        Expect.contains("floeberg.token", Expect.raised(RemoteStorageException.class, () -> fetch(plugin, 0)));
    }

    @Test
    void stream_closed_twice_and_unread_is_fine() throws IOException, RemoteStorageException {
        InputStream in = fetch(door.plugin(), 0);
        in.close();
        in.close();
    }
}
