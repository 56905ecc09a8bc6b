package io.floeberg.kafka;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** Segments and batches as Kafka makes them. */
final class Segments {
    static final String TOPIC_ID = "MkU3OEVBNTcwNTJENDM2Qg";
    private static final int RECORD_BYTES = 1000;

    private Segments() { }

    /** Metadata of a segment whose inclusive ends are these. */
    static RemoteLogSegmentMetadata segment(long first, long last) {
        TopicIdPartition partition = new TopicIdPartition(Uuid.fromString(TOPIC_ID), new TopicPartition("orders", 3));
        RemoteLogSegmentId id = new RemoteLogSegmentId(partition, Uuid.randomUuid());
        return new RemoteLogSegmentMetadata(id, first, last, 1_000, 1, 1_000, 4_096, Map.of(5, first));
    }

    static LogSegmentData data(String leaderEpochs, byte[] producerSnapshot) throws IOException {
        Path snapshot = Files.createTempFile("producers", ".snapshot");
        snapshot.toFile().deleteOnExit();
        Files.write(snapshot, producerSnapshot);
        ByteBuffer epochs = ByteBuffer.wrap(leaderEpochs.getBytes(java.nio.charset.StandardCharsets.UTF_8));
        Path none = Path.of("not-read");
        return new LogSegmentData(none, none, none, java.util.Optional.empty(), snapshot, epochs);
    }

    /** Batches of {@code each} records that cover {@code first} to {@code last}, both included. */
    static byte[] batches(long first, long last, int each) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (long base = first; base <= last; base += each)
            bytes.writeBytes(batch(base, (int) Math.min(each, last - base + 1)));
        return bytes.toByteArray();
    }

    static byte[] batch(long base, int count) {
        SimpleRecord[] records = new SimpleRecord[count];
        for (int i = 0; i < count; i++)
            records[i] = new SimpleRecord(1_000 + base + i, new byte[RECORD_BYTES]);
        ByteBuffer buffer = MemoryRecords.withRecords(base, Compression.NONE, 5, records).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }
}
