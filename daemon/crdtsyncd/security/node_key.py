"""The node's key and its self-signed certificate: made at the first start, kept in the data directory.

The identity of a peer follows from its key alone: a *pin* is the SHA-256 of a certificate's public key (its
SubjectPublicKeyInfo, RFC 5280 §4.1), as in RFC 7469. Names, issuers and host names in certificates mean nothing here.
"""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from crdtsyncd.security.key_files import CERTIFICATE_NAME, KEY_NAME
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from crdtsync.errors import StorageError

NEXT = "next-"
"""Begins the names of the files that a rotation has made and that are not in use yet."""
VALID_FROM = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
"""Long ago, so that a peer whose clock is behind still takes it."""
VALID_DAYS = 3653
NODE_ID_CHARS = 32


@dataclass(frozen=True, slots=True)
class NodeKey:
    """A private key with its certificate, and the files that hold them."""

    key: ec.EllipticCurvePrivateKey
    certificate: bytes
    key_path: Path
    certificate_path: Path

    @property
    def pin(self) -> str:
        """The pin of the public key, in hexadecimal."""
        return pin_of(self.certificate)

    @property
    def node(self) -> str:
        """The id of a node that began with this key."""
        return self.pin[:NODE_ID_CHARS]

    @property
    def expires_ms(self) -> int:
        """When the certificate expires, in ms since 1970."""
        return expires_ms_of(self.certificate)

    def sign(self, data: bytes) -> bytes:
        """An ECDSA signature with SHA-256."""
        return self.key.sign(data, ec.ECDSA(hashes.SHA256()))


def pin_of(certificate: bytes) -> str:
    """The pin of a certificate in DER.

    :raises ValueError: it is no certificate, or of no kind of key that is known here.
    """
    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from None
    return sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def expires_ms_of(certificate: bytes) -> int:
    """When a certificate in DER expires, in ms since 1970.

    :raises ValueError: it is no certificate.
    """
    return int(x509.load_der_x509_certificate(certificate).not_valid_after_utc.timestamp() * 1000)


def verifies(certificate: bytes, signature: bytes, data: bytes) -> bool:
    """Whether the owner of a certificate in DER has signed ``data``."""
    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
            return False
        public.verify(signature, data, ec.ECDSA(hashes.SHA256()))
    except (ValueError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def load_or_make_key(data_dir: Path) -> NodeKey:
    """The key of the node whose data is in ``data_dir``; a new one at the first start.

    A key that the service manager hands over (``LoadCredential=node.key:…``) is used in place of the file; its
    certificate is kept in the data directory all the same.

    :raises StorageError: a file cannot be read, written, or used.
    """
    handed_over = Path(os.environ.get("CREDENTIALS_DIRECTORY", "/nonexistent")) / KEY_NAME
    key_path = handed_over if handed_over.is_file() else data_dir / KEY_NAME
    certificate_path = data_dir / CERTIFICATE_NAME
    try:
        key = _read_key(key_path) if key_path.exists() else _make_key(key_path)
        certificate = _read_certificate(certificate_path, key) if certificate_path.exists() else None
        if certificate is None:
            certificate = self_signed(key)
            _write(certificate_path, x509.load_der_x509_certificate(certificate).public_bytes(Encoding.PEM))
        _check_private(key_path)
    except OSError as error:
        raise StorageError(f"cannot keep the node's key in {data_dir}: {error.strerror}") from None
    return NodeKey(key, certificate, key_path, certificate_path)


def with_new_certificate(data_dir: Path, node_key: NodeKey) -> NodeKey:
    """The same key with a certificate that is valid for long again. Nodes that know the old one have to hear of it.

    :raises StorageError: it cannot be written.
    """
    path = data_dir / CERTIFICATE_NAME
    certificate = self_signed(node_key.key)
    try:
        _write(path, x509.load_der_x509_certificate(certificate).public_bytes(Encoding.PEM))
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
    return NodeKey(node_key.key, certificate, node_key.key_path, path)


def make_next_key(data_dir: Path) -> NodeKey:
    """A second key, beside the one in use; the one that an earlier call has made if there is one.

    :raises StorageError: it cannot be written.
    """
    key_path, certificate_path = data_dir / f"{NEXT}{KEY_NAME}", data_dir / f"{NEXT}{CERTIFICATE_NAME}"
    try:
        key = _read_key(key_path) if key_path.exists() else _make_key(key_path)
        if not certificate_path.exists():
            made = x509.load_der_x509_certificate(self_signed(key))
            _write(certificate_path, made.public_bytes(Encoding.PEM))
        certificate = _read_certificate(certificate_path, key)
    except OSError as error:
        raise StorageError(f"cannot make a key in {data_dir}: {error.strerror}") from None
    assert certificate is not None
    return NodeKey(key, certificate, key_path, certificate_path)


def pending_key(data_dir: Path) -> NodeKey | None:
    """The second key, if one has been made and is not in use yet.

    :raises StorageError: it cannot be read.
    """
    return make_next_key(data_dir) if (data_dir / f"{NEXT}{KEY_NAME}").exists() else None


def use_next_key(data_dir: Path) -> None:
    """Put the second key in the place of the first.

    :raises StorageError: the files cannot be renamed.
    """
    try:
        for name in (KEY_NAME, CERTIFICATE_NAME):  # a crash in between: the certificate is made anew from the key
            (data_dir / f"{NEXT}{name}").replace(data_dir / name)
        _sync_dir(data_dir)
    except OSError as error:
        raise StorageError(f"cannot put the new key in place in {data_dir}: {error.strerror}") from None


def self_signed(
    key: ec.EllipticCurvePrivateKey, valid_until: dt.datetime | None = None, valid_from: dt.datetime = VALID_FROM
) -> bytes:
    """A certificate in DER for ``key``, signed with it. Its subject is unique, for OpenSSL looks trust up by it."""
    public = key.public_key()
    spki = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, sha256(spki).hexdigest())])
    until = valid_until or dt.datetime.now(dt.UTC) + dt.timedelta(days=VALID_DAYS)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid_from)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(Encoding.DER)


def _make_key(path: Path) -> ec.EllipticCurvePrivateKey:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ec.generate_private_key(ec.SECP256R1())
    _write(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key: PrivateKeyTypes | None
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise StorageError(
            f"{path} is not a P-256 private key in PEM: put the node's key back from a backup, or, to make this a new "
            "node, move its data directory away"
        )
    return key


def _read_certificate(path: Path, key: ec.EllipticCurvePrivateKey) -> bytes | None:
    """In DER; None if it is not that of ``key``, and is to be made anew."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        return None
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    held = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return certificate.public_bytes(Encoding.DER) if held == public else None


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, and on disk on return."""
    draft = path.with_name(f"{path.name}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(handle, 0o600)
        os.write(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)
    draft.replace(path)
    _sync_dir(path.parent)


def _sync_dir(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_private(path: Path) -> None:
    if path.stat().st_mode & 0o007:
        raise StorageError(f"{path} can be read by everybody: chmod 600 it, then start crdtsyncd again")
