package io.floeberg.kafka;

import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;

import java.util.Map;

final class IndexTest implements AutoCloseable {
    private final FakeDoor door = new FakeDoor();

    @Override
    public void close() {
        door.close();
    }

    private Object fetch(FloebergRemoteStorageManager plugin, IndexType type) throws RemoteStorageException, java.io.IOException {
        return new String(plugin.fetchIndex(Segments.segment(100, 199), type).readAllBytes());
    }

    @Test
    void each_index_is_asked_for_by_its_name() throws Exception {
        door.answer = exchange -> FakeDoor.bytes(exchange, exchange.getRequestURI().getPath().getBytes());
        for (Map.Entry<IndexType, String> index : Map.of(IndexType.OFFSET, "offset", IndexType.TIMESTAMP, "timestamp",
                IndexType.LEADER_EPOCH, "leader-epoch", IndexType.PRODUCER_SNAPSHOT, "producer-snapshot").entrySet())
            Expect.equal("/v1/log/" + Segments.TOPIC_ID + "/3/index/" + index.getValue(), fetch(door.plugin(), index.getKey()));
    }

    @Test
    void transaction_index_does_not_exist_and_is_not_asked_for() {
        Expect.raised(RemoteResourceNotFoundException.class, () -> fetch(door.plugin(), IndexType.TRANSACTION));
        Expect.equal(0, door.asked.size());
    }

    @Test
    void empty_index_is_an_index() throws Exception {
        door.answer = exchange -> FakeDoor.bytes(exchange, new byte[0]);
        Expect.equal("", fetch(door.plugin(), IndexType.OFFSET));
    }

    @Test
    void index_that_is_not_there_for_good_is_told_as_not_found() {
        door.answer = exchange -> FakeDoor.status(exchange, 404, "below the log start");
        Expect.contains("below the log start",
            Expect.raised(RemoteResourceNotFoundException.class, () -> fetch(door.plugin(), IndexType.PRODUCER_SNAPSHOT)));
    }

    @Test
    void index_changed_on_its_way_is_never_handed_to_the_broker() {
        door.answer = exchange -> {
            exchange.getResponseHeaders().set("Floeberg-Crc32c", "00000000");
            exchange.sendResponseHeaders(200, 8);
            exchange.getResponseBody().write(new byte[8]);
            exchange.close();
        };
        Expect.contains("damaged", Expect.raised(KafkaStorageException.class, () -> fetch(door.plugin(), IndexType.OFFSET)));
    }

    @Test
    void index_without_its_crc_is_never_handed_to_the_broker() {
        door.answer = exchange -> {
            exchange.sendResponseHeaders(200, 8);
            exchange.getResponseBody().write(new byte[8]);
            exchange.close();
        };
        Expect.raised(KafkaStorageException.class, () -> fetch(door.plugin(), IndexType.OFFSET));
    }

    @Test
    void index_while_the_daemon_is_away_is_retriable_for_clients() {
        FloebergRemoteStorageManager plugin = door.plugin();
        door.close();
        Expect.raised(KafkaStorageException.class, () -> fetch(plugin, IndexType.OFFSET));
    }
}
