"""An authority of a test's own, and certificates that it signs for 127.0.0.1."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_NAMES: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("door.test")]


class Authority:
    """``ca_file`` is its certificate; nobody else vouches for it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Floeberg's tests")])
        self.ca_file = folder / "ca.pem"
        built = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        self._certificate = built.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.ca_file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, folder: Path) -> int:
        """A new ``door.pem`` and ``door.key``, in place of those that are there; the certificate's serial number."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "door")])
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            self._builder(name, key)
            .add_extension(x509.SubjectAlternativeName(_NAMES), critical=False)
            .add_extension(authority, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        (folder / "door.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        (folder / "door.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return certificate.serial_number

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca_file)

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
