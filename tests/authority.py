"""An authority made with OpenSSL, and the certificate of one server."""

from __future__ import annotations

from pathlib import Path

from clients import run


def certify(directory: Path, names: str) -> Path:
    """Make `host.key` and `host.crt` with these alternative names, and the authority that signs it; its certificate."""
    ca, ca_key, key, request = (directory / name for name in ("ca.crt", "ca.key", "host.key", "host.csr"))
    extensions = directory / "names"
    extensions.write_text(f"subjectAltName={names}\n")
    new = ("-newkey", "rsa:2048", "-nodes", "-keyout")
    run("openssl", "req", "-x509", *new, ca_key, "-subj", "/CN=test CA", "-days", "2", "-out", ca)
    run("openssl", "req", *new, key, "-subj", "/CN=test", "-out", request)
    signer = ("-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "2", "-extfile", extensions)
    run("openssl", "x509", "-req", "-in", request, *signer, "-out", directory / "host.crt")
    return ca
