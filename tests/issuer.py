"""An issuer of bearer tokens, as sites run them: keys, an https server with them, and tokens signed by OpenSSL."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from authority import certify
from clients import run

Json = dict[str, Any]


def text_of(data: bytes) -> str:
    """Write bytes as tokens have them."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def part(value: Json) -> str:
    """Write one part of a token."""
    return text_of(json.dumps(value).encode())


class Key:
    """A key pair of OpenSSL.

    Parameters
    ----------
    file
        Where the private key lies.
    algorithm
        `RS256` or `ES256`.
    """

    def __init__(self, file: Path, algorithm: str) -> None:
        self.file = file
        self.algorithm = algorithm
        options = {"RS256": ("RSA", "rsa_keygen_bits:2048"), "ES256": ("EC", "ec_paramgen_curve:P-256")}
        kind, option = options[algorithm]
        run("openssl", "genpkey", "-algorithm", kind, "-pkeyopt", option, "-out", file)

    def public(self, form: str = "DER") -> bytes:
        """Read the public key."""
        return self._openssl("pkey", "-in", str(self.file), "-pubout", "-outform", form)

    def jwk(self, kid: str) -> Json:
        """Describe the public key as lists of keys do."""
        der = self.public()
        if self.algorithm == "ES256":
            point = der[-64:]
            return {"kty": "EC", "crv": "P-256", "kid": kid, "x": text_of(point[:32]), "y": text_of(point[32:])}
        # Its last numbers: a modulus of 256 bytes and an exponent of three.
        return {"kty": "RSA", "kid": kid, "use": "sig", "n": text_of(der[-261:-5]), "e": text_of(der[-3:])}

    def sign(self, text: str) -> bytes:
        """Sign as the algorithm says."""
        signature = self._openssl("dgst", "-sha256", "-sign", str(self.file), data=text.encode())
        if self.algorithm == "RS256":
            return signature
        # SEQUENCE { INTEGER r, INTEGER s } becomes both numbers with 32 bytes each.
        end = 4 + signature[3]
        r, s = signature[4:end], signature[end + 2 :]
        return b"".join(number.lstrip(b"\0").rjust(32, b"\0") for number in (r, s))

    @staticmethod
    def _openssl(*words: str, data: bytes = b"") -> bytes:
        return subprocess.run(["openssl", *words], input=data, capture_output=True, timeout=60, check=True).stdout


class Issuer:
    """An issuer with its https server.

    Parameters
    ----------
    directory
        Where its keys and certificates lie.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.keys = {name: Key(directory / f"{name}.pem", algorithm) for name, algorithm in KEYS.items()}
        self.stranger = Key(directory / "stranger.pem", "ES256")
        self.published = dict(self.keys)
        self.asked: list[str] = []
        self.mended: dict[str, bytes | str | None] = {}
        """What is answered instead, by path: a document, where to go instead, or nothing at all."""
        self.closing = threading.Event()
        self.ca = certify(directory, "DNS:localhost")
        self._server = self._serve()
        self.url = f"https://localhost:{self._server.server_address[1]}/vo"

    def _serve(self) -> http.server.ThreadingHTTPServer:
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                body = issuer.mended.get(self.path, issuer.document(self.path))
                if self.path in issuer.mended and body is None:
                    issuer.closing.wait(60)
                    return
                if isinstance(body, str):
                    self.send_response(302)
                    self.send_header("location", body)
                    self.end_headers()
                    return
                self.send_response(200 if body is not None else 404)
                self.send_header("content-type", "application/json")
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.directory / "host.crt", self.directory / "host.key")
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def document(self, path: str) -> bytes | None:
        """Answer a question."""
        documents: dict[str, Json] = {
            "/vo/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/jwk"},
            "/vo/jwk": {"keys": [key.jwk(kid) for kid, key in self.published.items()]},
        }
        return json.dumps(documents[path]).encode() if path in documents else None

    def close(self) -> None:
        """End the server."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def claims(self, scope: str, **changes: object) -> Json:
        """Say what a good token says; `None` takes a claim away."""
        now = int(time.time())
        claims: Json = {"iss": self.url, "sub": "subject-1", "aud": AUDIENCE, "jti": "1", "wlcg.ver": "1.0"}
        claims |= {"iat": now, "nbf": now, "exp": now + 600, "scope": scope, **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, scope: str = "", kid: str = "rsa", signer: Key | None = None, **changes: object) -> str:
        """Sign a token; with `signer` by a key that is not the one it names."""
        key = signer or self.keys[kid]
        head = part({"alg": key.algorithm, "typ": "JWT", "kid": kid})
        text = f"{head}.{part(self.claims(scope, **changes))}"
        return f"{text}.{text_of(key.sign(text))}"


KEYS = {"rsa": "RS256", "ec": "ES256"}
"""Keys of an issuer, with what they sign with."""

AUDIENCE = "https://door.example"
"""The audience by which facilities of tests are known."""
