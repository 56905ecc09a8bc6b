package io.floeberg.kafka;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

/** Certificates of authorities from a PEM file, for TLS to a server that only they vouch for. */
final class TrustedAuthorities {
    private TrustedAuthorities() {
    }

    static SSLSocketFactory socketFactory(Path pemFile) throws IOException, GeneralSecurityException {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        try (InputStream pem = Files.newInputStream(pemFile)) {
            for (Certificate authority : CertificateFactory.getInstance("X.509").generateCertificates(pem))
                trusted.setCertificateEntry("authority-" + trusted.size(), authority);
        }
        if (trusted.size() == 0)
            throw new CertificateException("there is no certificate in it");
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context.getSocketFactory();
    }
}
