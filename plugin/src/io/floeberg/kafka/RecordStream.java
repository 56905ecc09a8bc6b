package io.floeberg.kafka;

import org.apache.kafka.common.errors.KafkaStorageException;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.function.LongConsumer;
import java.util.zip.CRC32C;

/**
 * The record batches of a segment from one offset on, asked for window by window and checked as they pass.
 *
 * <p>The broker takes an early end of this stream for the end of the segment and would go on with the next one, so an answer that breaks
 * off must be an error. The last batch has to reach the segment's end; each has to begin behind the one before and have a valid CRC-32C;
 * the last byte of a batch that fails is never handed out. Errors are {@link KafkaStorageException}, which clients retry.
 */
final class RecordStream extends InputStream {
    /** Asks for whole batches from the one that covers an offset, ending with the one that reaches a size in bytes. */
    interface Windows {
        InputStream open(long from, int maxBytes) throws IOException;
    }

    static final int MIN_WINDOW_BYTES = 1 << 20;
    static final int MAX_WINDOW_BYTES = 16 << 20;

    // Record batch v2 (docs/batch_format.md): where the fields that are checked lie.
    private static final int HEADER_BYTES = 61;
    private static final int LENGTH_AT = 8;
    private static final int MAGIC_AT = 16;
    private static final int CRC_AT = 17;
    private static final int CRC_COVERS_FROM = 21;
    private static final int LAST_OFFSET_DELTA_AT = 23;
    private static final int BYTES_BEFORE_LENGTH_COUNTS = 12;
    /** A batch that claims more is taken for damage before the broker allocates a buffer for it. */
    private static final int MAX_BATCH_BYTES = 1 << 30;

    private final SegmentRange range;
    private final long from;
    private final long stop;
    private final Windows windows;
    private final int firstWindowBytes;
    private final LongConsumer onHangUp;
    private final byte[] header = new byte[HEADER_BYTES];
    private final CRC32C crc = new CRC32C();

    private InputStream window;
    private boolean windowHadBatches;
    private long next;
    private boolean first = true;
    private int headerServed = HEADER_BYTES;
    private int bodyLeft;
    private long served;
    private boolean closed;
    private KafkaStorageException failure;

    /**
     * @param from the first batch covers this offset
     * @param stop the stream ends with the batch that reaches this offset (at most the range's end)
     * @param windowBytes how much the first window asks for
     * @param onHangUp told how many bytes were read, when the stream is closed before its end
     */
    RecordStream(SegmentRange range, long from, long stop, int windowBytes, Windows windows, LongConsumer onHangUp) {
        this.range = range;
        this.from = from;
        this.stop = Math.min(stop, range.end);
        this.firstWindowBytes = Math.max(MIN_WINDOW_BYTES, Math.min(MAX_WINDOW_BYTES, windowBytes));
        this.windows = windows;
        this.onHangUp = onHangUp;
        this.next = from;
    }

    /** Opens the first window, so that a daemon that is away is noticed before the broker reads. */
    RecordStream opened() throws IOException {
        window = windows.open(next, firstWindowBytes);
        return this;
    }

    @Override
    public int read() {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] target, int at, int length) {
        if (length == 0)
            return 0;
        if (failure != null)
            throw failure;
        try {
            if (headerServed == HEADER_BYTES && bodyLeft == 0 && !nextBatch())
                return -1;
            int count = headerServed < HEADER_BYTES ? serveHeader(target, at, length) : serveBody(target, at, length);
            served += count;
            return count;
        } catch (IOException e) {
            String where = "Records of " + range + " from offset " + from + " broke off at offset " + next;
            failure = new KafkaStorageException(where + ": " + e.getMessage(), e);
            throw failure;
        }
    }

    @Override
    public void close() throws IOException {
        if (closed)
            return;
        closed = true;
        if (next < stop || bodyLeft > 0)
            onHangUp.accept(served);
        if (window != null)
            window.close();
    }

    private int serveHeader(byte[] target, int at, int length) throws IOException {
        int count = Math.min(length, HEADER_BYTES - headerServed);
        System.arraycopy(header, headerServed, target, at, count);
        headerServed += count;
        if (headerServed == HEADER_BYTES && bodyLeft == 0)
            endBatch();
        return count;
    }

    private int serveBody(byte[] target, int at, int length) throws IOException {
        int count = window.read(target, at, Math.min(length, bodyLeft));
        if (count < 0)
            throw new IOException("the answer ended within a batch");
        crc.update(target, at, count);
        bodyLeft -= count;
        if (bodyLeft == 0)
            endBatch();
        return count;
    }

    private void endBatch() throws IOException {
        if ((int) crc.getValue() != ByteBuffer.wrap(header).getInt(CRC_AT))
            throw new IOException("the batch that ends before this offset has a wrong CRC");
    }

    /** Reads and checks the next batch's header; false at the end of the segment. */
    private boolean nextBatch() throws IOException {
        if (next >= stop)
            return false;
        int count = window.readNBytes(header, 0, HEADER_BYTES);
        if (count == 0 && windowHadBatches) {
            openNextWindow();
            count = window.readNBytes(header, 0, HEADER_BYTES);
        }
        if (count == 0)
            throw new IOException("the answer had no batch");
        if (count < HEADER_BYTES)
            throw new IOException("the answer ended within a batch's header, after " + count + " bytes");
        takeHeader(ByteBuffer.wrap(header));
        return true;
    }

    private void openNextWindow() throws IOException {
        window.close();
        windowHadBatches = false;
        // As much again as was read so far: a broker that reads on likely takes a multiple.
        window = windows.open(next, (int) Math.min(MAX_WINDOW_BYTES, Math.max(MIN_WINDOW_BYTES, served)));
    }

    private void takeHeader(ByteBuffer batch) throws IOException {
        long base = batch.getLong(0);
        long sizeBytes = (long) batch.getInt(LENGTH_AT) + BYTES_BEFORE_LENGTH_COUNTS;
        long last = base + batch.getInt(LAST_OFFSET_DELTA_AT);
        if (batch.get(MAGIC_AT) != 2 || sizeBytes < HEADER_BYTES || sizeBytes > MAX_BATCH_BYTES)
            throw new IOException("what should be a batch has magic " + batch.get(MAGIC_AT) + " and " + sizeBytes + " bytes");
        // A read may begin within a batch; after it each begins where the one before ends: a batch that was lost would leave a hole.
        boolean adjacent = first ? base >= range.start && base <= next : base == next;
        if (!adjacent || last < next || last < base || last >= range.end)
            throw new IOException("a batch of offsets " + base + " to " + last + " is out of place");
        first = false;
        windowHadBatches = true;
        next = last + 1;
        headerServed = 0;
        bodyLeft = (int) sizeBytes - HEADER_BYTES;
        crc.reset();
        crc.update(header, CRC_COVERS_FROM, HEADER_BYTES - CRC_COVERS_FROM);
    }
}
