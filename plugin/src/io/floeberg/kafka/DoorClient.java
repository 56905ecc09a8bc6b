package io.floeberg.kafka;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.SocketTimeoutException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.zip.CRC32C;
import javax.net.ssl.HttpsURLConnection;

/**
 * HTTP to the daemon's log door, in the terms of docs/log_door.md.
 *
 * <p>HttpURLConnection rather than java.net.http: it bounds the silence <em>within</em> a body (a daemon that stalls must not hold a
 * broker's reader thread for ever), reads straight into the broker's buffer, and ignores the interrupt with which the broker cancels a
 * fetch that took too long. Connections are kept alive by the JDK.
 */
final class DoorClient {
    /** An error's explanation is read up to this size. */
    private static final int MAX_PROBLEM_BYTES = 4096;

    /** A copy may find the door at work on its range: its silence is longer than a read's by this factor. */
    private static final int COPY_PATIENCE = 4;

    private final DoorSettings settings;
    /** A read's answer did not begin in time. Until one does, a single read waits for the door and all others fail at once: the
     *  broker has few threads for them, and when these are held its queue runs over, which clients see as UNKNOWN_SERVER_ERROR. */
    private final AtomicBoolean silent = new AtomicBoolean();
    private final Semaphore prober = new Semaphore(1);

    DoorClient(DoorSettings settings) {
        this.settings = settings;
    }

    /** Asks once whether the range is safe in the table; the door waits up to {@code waitMs} for it. */
    void copy(SegmentRange range, byte[] auxiliaryState, int waitMs) throws IOException {
        HttpURLConnection connection = open("POST", range.path() + "/copy" + range.query() + "&wait_ms=" + waitMs);
        connection.setReadTimeout(waitMs + COPY_PATIENCE * settings.readTimeoutMs);
        connection.setRequestProperty("Content-Type", "application/octet-stream");
        connection.setDoOutput(true);
        connection.getOutputStream().write(auxiliaryState);
        try (InputStream answer = body(connection)) {
            answer.readAllBytes();
        }
    }

    /** Whole batches from the one that covers {@code from}; ends with the batch that reaches {@code maxBytes}. The caller closes it. */
    InputStream records(SegmentRange range, long from, int maxBytes) throws IOException {
        return read(open("GET", range.path() + "/records" + range.query() + "&from=" + from + "&max_bytes=" + maxBytes));
    }

    /** A whole index, checked against the CRC that came with it. */
    byte[] index(SegmentRange range, String name) throws IOException {
        HttpURLConnection connection = open("GET", range.path() + "/index/" + name + range.query());
        byte[] index;
        try (InputStream answer = read(connection)) {
            index = answer.readAllBytes();
        }
        CRC32C crc = new CRC32C();
        crc.update(index);
        String told = connection.getHeaderField("Floeberg-Crc32c");
        String found = String.format("%08x", crc.getValue());
        if (!found.equals(told))
            throw new IOException("The log door's " + name + " index of " + range + " was damaged on its way: CRC-32C " + found + ", told " + told);
        return index;
    }

    void delete(SegmentRange range) throws IOException {
        try (InputStream answer = body(open("DELETE", range.path() + range.query()))) {
            answer.readAllBytes();
        }
    }

    private HttpURLConnection open(String method, String pathAndQuery) throws IOException {
        URL url = new URL(settings.url + pathAndQuery);
        HttpURLConnection connection = (HttpURLConnection) url.openConnection(Proxy.NO_PROXY);
        connection.setRequestMethod(method);
        connection.setConnectTimeout(settings.connectTimeoutMs);
        connection.setReadTimeout(settings.readTimeoutMs);
        connection.setInstanceFollowRedirects(false);
        connection.setUseCaches(false);
        connection.setRequestProperty("Authorization", "Bearer " + settings.token());
        if (settings.sockets != null && connection instanceof HttpsURLConnection)
            ((HttpsURLConnection) connection).setSSLSocketFactory(settings.sockets);
        return connection;
    }

    /** The answer to a read, waited for only while nobody knows that the door is silent. */
    private InputStream read(HttpURLConnection connection) throws IOException {
        boolean probing = silent.get();
        if (probing && !prober.tryAcquire())
            throw new IOException("The log door did not answer within " + settings.readTimeoutMs + " ms; another read waits for it now");
        try {
            InputStream answer = body(connection);
            silent.set(false);
            return answer;
        } catch (DoorAnswer e) {
            silent.set(false);
            throw e;
        } catch (SocketTimeoutException e) {
            silent.set(true);
            throw e;
        } finally {
            if (probing)
                prober.release();
        }
    }

    private InputStream body(HttpURLConnection connection) throws IOException {
        int status = connection.getResponseCode();
        if (status == 200 || status == 204)
            return connection.getInputStream();
        String problem = "";
        try (InputStream error = connection.getErrorStream()) {
            if (error != null)
                problem = new String(error.readNBytes(MAX_PROBLEM_BYTES), StandardCharsets.UTF_8);
        }
        String asked = connection.getRequestMethod() + " " + connection.getURL();
        if (status == 401 || status == 403)
            throw new DoorAnswer(status, "The log door refused the broker's token (" + asked + ", status " + status
                + "). Next: write it again with floeberg plugin where " + DoorSettings.TOKEN_FILE + " names the file; else give "
                + DoorSettings.TOKEN + " in the broker's settings one of the daemon's [log_door] tokens.");
        throw new DoorAnswer(status, "The log door answered " + status + " to " + asked + ": " + problem);
    }
}
