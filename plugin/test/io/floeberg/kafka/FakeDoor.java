package io.floeberg.kafka;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;

import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.zip.CRC32C;
import javax.net.ssl.SSLContext;

/** A log door that answers what a test tells it, and remembers what it was asked. */
final class FakeDoor implements AutoCloseable {
    interface Answer {
        void give(HttpExchange exchange) throws IOException;
    }

    final List<String> asked = new CopyOnWriteArrayList<>();
    final List<byte[]> bodies = new CopyOnWriteArrayList<>();
    final List<Integer> clientPorts = new CopyOnWriteArrayList<>();
    volatile Answer answer = exchange -> status(exchange, 404, "nothing was planned");
    private final HttpServer server;
    private final ExecutorService pool = Executors.newCachedThreadPool();

    private final String scheme;

    FakeDoor() {
        this(null);
    }

    /** With TLS where there is a context. */
    FakeDoor(SSLContext context) {
        InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        scheme = context == null ? "http" : "https";
        try {
            server = context == null ? HttpServer.create(address, 0) : HttpsServer.create(address, 0);
            if (context != null)
                ((HttpsServer) server).setHttpsConfigurator(new HttpsConfigurator(context));
        } catch (IOException e) {
            throw new AssertionError(e);
        }
        server.createContext("/", this::serve);
        server.setExecutor(pool);
        server.start();
    }

    String url() {
        return scheme + "://127.0.0.1:" + server.getAddress().getPort();
    }

    FloebergRemoteStorageManager plugin(Map<String, String> more) {
        Map<String, String> configs = new java.util.HashMap<>(Map.of("floeberg.token", "secret"));
        configs.putAll(more);
        return pluginWith(configs);
    }

    /** Its token is among {@code more}. */
    FloebergRemoteStorageManager pluginWith(Map<String, String> more) {
        Map<String, String> configs = new java.util.HashMap<>(Map.of(
            "floeberg.url", url(), "floeberg.copy.timeout.ms", "300", "floeberg.read.timeout.ms", "300"));
        configs.putAll(more);
        FloebergRemoteStorageManager plugin = new FloebergRemoteStorageManager();
        plugin.configure(configs);
        return plugin;
    }

    FloebergRemoteStorageManager plugin() {
        return plugin(Map.of());
    }

    private void serve(HttpExchange exchange) throws IOException {
        asked.add(exchange.getRequestMethod() + " " + exchange.getRequestURI());
        clientPorts.add(exchange.getRemoteAddress().getPort());
        bodies.add(exchange.getRequestBody().readAllBytes());
        if (!"Bearer secret".equals(exchange.getRequestHeaders().getFirst("Authorization"))) {
            status(exchange, 401, "wrong token");
            return;
        }
        answer.give(exchange);
    }

    static void status(HttpExchange exchange, int code, String problem) throws IOException {
        byte[] body = problem.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(code, body.length == 0 ? -1 : body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    /** A whole body in chunks. */
    static void bytes(HttpExchange exchange, byte[] body) throws IOException {
        CRC32C crc = new CRC32C();
        crc.update(body);
        exchange.getResponseHeaders().set("Floeberg-Crc32c", String.format("%08x", crc.getValue()));
        exchange.sendResponseHeaders(200, 0);
        try (OutputStream out = exchange.getResponseBody()) {
            out.write(body);
        }
    }

    /** The beginning of a body, after which the connection breaks. */
    static void brokenOff(HttpExchange exchange, byte[] body, int kept) throws IOException {
        exchange.sendResponseHeaders(200, body.length);
        exchange.getResponseBody().write(body, 0, kept);
        exchange.getResponseBody().flush();
        exchange.close();
    }

    @Override
    public void close() {
        server.stop(0);
        pool.shutdownNow();
    }
}
