package io.floeberg.kafka;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.CRC32C;

import org.apache.kafka.server.log.remote.storage.LogSegmentData;

/** The body of a copy request: what a follower needs to bootstrap. Byte table in docs/log_door.md. */
final class AuxiliaryState {
    private static final byte[] MAGIC = "FLAX".getBytes(StandardCharsets.US_ASCII);
    private static final int VERSION = 1;

    private AuxiliaryState() { }

    static byte[] encode(LogSegmentData data) throws IOException {
        ByteBuffer epochs = data.leaderEpochIndex().duplicate();
        byte[] leaderEpochs = new byte[epochs.remaining()];
        epochs.get(leaderEpochs);
        Path snapshot = data.producerSnapshotIndex();
        return encode(leaderEpochs, snapshot == null ? null : Files.readAllBytes(snapshot));
    }

    static byte[] encode(byte[] leaderEpochs, byte[] producerSnapshot) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.write(MAGIC);
        out.writeInt(VERSION);
        out.writeInt(leaderEpochs.length);
        out.write(leaderEpochs);
        out.writeInt(producerSnapshot == null ? -1 : producerSnapshot.length);
        if (producerSnapshot != null)
            out.write(producerSnapshot);
        CRC32C crc = new CRC32C();
        crc.update(bytes.toByteArray());
        out.writeInt((int) crc.getValue());
        return bytes.toByteArray();
    }
}
