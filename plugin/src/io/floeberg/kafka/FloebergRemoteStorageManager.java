package io.floeberg.kafka;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * Kafka's tiered storage (KIP-405), held by Floeberg's table: every question of the broker is asked of the daemon's log door.
 *
 * <p>Stores nothing itself. Positions handed to the broker are relative offsets, see docs/log_door.md.
 */
public final class FloebergRemoteStorageManager implements RemoteStorageManager {
    /** Between two questions about the same copy, when the door answers at once that it can't say yet. */
    private static final long COPY_PAUSE_MS = 500;
    /** The door is asked to hold a copy this long; the bound makes a daemon that went away noticed in time. */
    private static final int COPY_WAIT_MS = 10_000;

    /** How many bytes the broker took of a partition before it last hung up: what it will likely take next. One small entry a partition. */
    private final Map<TopicIdPartition, Integer> lastReadBytes = new ConcurrentHashMap<>();

    private DoorSettings settings;
    private DoorClient door;

    @Override
    public void configure(Map<String, ?> configs) {
        settings = new DoorSettings(configs);
        door = new DoorClient(settings);
    }

    /**
     * Returns once the range is verified in the table.
     *
     * @throws RemoteStorageException when it isn't within the copy timeout; the broker keeps the segment and asks again
     */
    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata metadata, LogSegmentData data) throws RemoteStorageException {
        SegmentRange range = SegmentRange.of(metadata);
        try {
            byte[] auxiliaryState = AuxiliaryState.encode(data);
            long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(settings.copyTimeoutMs);
            while (true) {
                long leftMs = TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime());
                try {
                    door.copy(range, auxiliaryState, (int) Math.max(0, Math.min(COPY_WAIT_MS, leftMs)));
                    return Optional.empty();
                } catch (IOException e) {
                    leftMs = TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime());
                    boolean retriable = !(e instanceof DoorAnswer) || ((DoorAnswer) e).isRetriable();
                    if (!retriable || leftMs <= 0)
                        throw e;
                    Thread.sleep(Math.min(COPY_PAUSE_MS, leftMs));
                }
            }
        } catch (IOException e) {
            throw translated(e, "The broker keeps offsets " + range + ", they are not copied yet");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new RemoteStorageException("The broker gave up the copy of " + range, e);
        }
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int startPosition) throws RemoteStorageException {
        return fetchLogSegment(metadata, startPosition, Integer.MAX_VALUE);
    }

    /** Both positions are relative offsets; the stream ends with the batch that holds {@code endPosition}. */
    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int startPosition, int endPosition) throws RemoteStorageException {
        SegmentRange range = SegmentRange.of(metadata);
        long from = range.start + startPosition;
        if (startPosition < 0 || from >= range.end || endPosition < startPosition)
            throw new RemoteStorageException("Positions " + startPosition + " to " + endPosition + " are not relative offsets of " + range);
        int windowBytes = lastReadBytes.getOrDefault(range.partition, RecordStream.MIN_WINDOW_BYTES);
        RecordStream stream = new RecordStream(range, from, range.start + endPosition + 1, windowBytes,
            (next, maxBytes) -> door.records(range, next, maxBytes),
            readBytes -> lastReadBytes.put(range.partition, (int) Math.min(readBytes, RecordStream.MAX_WINDOW_BYTES)));
        try {
            return stream.opened();
        } catch (IOException e) {
            throw readError(e, "Records of " + range + " from offset " + from);
        }
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType indexType) throws RemoteStorageException {
        SegmentRange range = SegmentRange.of(metadata);
        if (indexType == IndexType.TRANSACTION)
            // The table holds committed records only; the broker takes this answer for an empty index.
            throw new RemoteResourceNotFoundException("There is no aborted transaction in " + range);
        String name = indexType.name().toLowerCase(Locale.ROOT).replace('_', '-');
        try {
            return new ByteArrayInputStream(door.index(range, name));
        } catch (IOException e) {
            throw readError(e, "The " + name + " index of " + range);
        }
    }

    /** A hint: the door removes only what no other copy of these offsets can need. */
    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        SegmentRange range = SegmentRange.of(metadata);
        try {
            door.delete(range);
        } catch (IOException e) {
            throw translated(e, "The log door was not told that " + range + " is no longer needed");
        }
    }

    @Override
    public void close() {
        // Connections belong to the JDK's keep-alive cache, which closes idle ones by itself.
    }

    /**
     * What a failed read throws. Kafka 4.1 has no retriable RemoteStorageException, and a plain one reaches consumers as
     * UNKNOWN_SERVER_ERROR; KafkaStorageException reaches them as KAFKA_STORAGE_ERROR, after which all of them ask again.
     */
    private static RemoteStorageException readError(IOException e, String what) {
        if (e instanceof DoorAnswer && !((DoorAnswer) e).isRetriable())
            return translated(e, what);
        throw new KafkaStorageException(what + ": " + e.getMessage(), e);
    }

    private static RemoteStorageException translated(IOException e, String what) {
        String message = what + ": " + e.getMessage();
        if (e instanceof DoorAnswer && ((DoorAnswer) e).status == 404)
            return new RemoteResourceNotFoundException(message, e);
        return new RemoteStorageException(message, e);
    }
}
