"""An authority of our own, a server's certificate and a client's, for tests of TLS on the loopback."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LOOPBACK = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Files in PEM. ``client_key`` is encrypted with ``password``."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    password: str

    def server_context(self, *, asks_clients: bool) -> ssl.SSLContext:
        """A server's side; with ``asks_clients`` it talks to clients of the same authority only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server, self.server_key)
        if asks_clients:
            context.load_verify_locations(self.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def make_certificates(folder: Path, password: str = "opensesame") -> Certificates:
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("authority", authority_key, "authority", authority_key, is_authority=True)
    files = Certificates(
        authority=folder / "ca.pem",
        server=folder / "server.pem",
        server_key=folder / "server.key",
        client=folder / "client.pem",
        client_key=folder / "client.key",
        password=password,
    )
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    encrypted = serialization.BestAvailableEncryption(password.encode())
    for name, path, key_path, encryption in (
        ("server", files.server, files.server_key, serialization.NoEncryption()),
        ("client", files.client, files.client_key, encrypted),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key, "authority", authority_key, is_authority=False)
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_path.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
    return files


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        builder = builder.add_extension(_LOOPBACK, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
