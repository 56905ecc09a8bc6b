package io.floeberg.kafka;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

/**
 * Offsets {@code start <= offset < end} of one partition.
 *
 * <p>Kafka's segment metadata has inclusive ends. They become half-open here, and nowhere else.
 */
final class SegmentRange {
    final TopicIdPartition partition;
    final long start;
    final long end;

    private SegmentRange(TopicIdPartition partition, long start, long end) {
        this.partition = partition;
        this.start = start;
        this.end = end;
    }

    static SegmentRange of(RemoteLogSegmentMetadata metadata) {
        return new SegmentRange(metadata.topicIdPartition(), metadata.startOffset(), metadata.endOffset() + 1);
    }

    /** The partition's path at the log door, {@code /v1/log/<topic id>/<partition>}. */
    String path() {
        return "/v1/log/" + partition.topicId() + "/" + partition.partition();
    }

    String query() {
        return "?start=" + start + "&end=" + end;
    }

    @Override
    public String toString() {
        return "[" + start + ", " + end + ") of " + partition.topicPartition() + " (topic id " + partition.topicId() + ")";
    }
}
