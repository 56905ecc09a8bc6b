package io.floeberg.kafka;

import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.KeyStore;
import java.util.Base64;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;

/** A key for 127.0.0.1 whose certificate nobody vouches for but itself; made once by the JDK's keytool. */
final class SelfSigned {
    private static final char[] PASSWORD = "changeit".toCharArray();
    private static SelfSigned made;
    private final KeyStore store;
    private final Path pem;

    private SelfSigned() throws Exception {
        Path folder = Files.createTempDirectory("floeberg-tls");
        Path file = folder.resolve("key.p12");
        Path keytool = Paths.get(System.getProperty("java.home"), "bin", "keytool");
        Process process = new ProcessBuilder(keytool.toString(), "-genkeypair", "-alias", "door", "-keyalg", "EC", "-dname", "CN=door",
            "-ext", "san=ip:127.0.0.1", "-storetype", "PKCS12", "-storepass", new String(PASSWORD), "-keystore", file.toString())
            .redirectErrorStream(true).start();
        String told = new String(process.getInputStream().readAllBytes());
        Expect.holds(process.waitFor() == 0, told);
        store = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(file)) {
            store.load(in, PASSWORD);
        }
        byte[] certificate = store.getCertificate("door").getEncoded();
        pem = Files.writeString(folder.resolve("door.pem"), "-----BEGIN CERTIFICATE-----\n"
            + Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(certificate) + "\n-----END CERTIFICATE-----\n");
        // In this order they can go: what was registered last goes first.
        folder.toFile().deleteOnExit();
        file.toFile().deleteOnExit();
        pem.toFile().deleteOnExit();
    }

    static synchronized SelfSigned get() throws Exception {
        if (made == null)
            made = new SelfSigned();
        return made;
    }

    SSLContext context() throws Exception {
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, PASSWORD);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);
        return context;
    }

    Path pem() {
        return pem;
    }
}
