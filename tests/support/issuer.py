"""An issuer of tokens for tests: its keys, the tokens that it signs, and its HTTPS server."""

import base64
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.support.certificates import Authority

ISSUER: Final = "https://issuer.test"
AUDIENCE: Final = "kafka"
CLIENT: Final = ("app-one", "hidden-secret")


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


KEY: Final = new_key()


def jwk_of(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, kid: str | None, **more: str
) -> Any:  # noqa: ANN401 - JSON
    """Return the public key as an entry of a JWKS."""
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    fields = json.loads(algorithm.to_jwk(key.public_key()))  # type: ignore[arg-type]  # of its own kind
    return {**fields, **({} if kid is None else {"kid": kid}), "use": "sig", **more}


def jwks_of(*keys: object) -> bytes:
    return json.dumps({"keys": keys}).encode()


def claims_of(user: str = "alice", *, seconds: float = 300, **more: object) -> dict[str, object]:
    """Return the claims of a valid token; None in ``more`` leaves a claim out."""
    now = time.time()
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "iat": now, "exp": now + seconds, **more}
    return {name: value for name, value in claims.items() if value is not None}


def sign(
    claims: Mapping[str, object],
    key: Any = KEY,  # noqa: ANN401 - of any kind
    *,
    algorithm: str = "ES256",
    kid: str | None = "k1",
) -> str:
    """Return a signed token."""
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(dict(claims), key, algorithm=algorithm, headers=headers)


def part_of(fields: Mapping[str, object]) -> str:
    """Return one part of a token, unsigned."""
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def unsecured(claims: Mapping[str, object], algorithm: str = "none") -> str:
    """Return a token without a signature."""
    return f"{part_of({'alg': algorithm, 'typ': 'JWT'})}.{part_of(claims)}."


def first_message(token: str, header: str = "n,,", more: str = "") -> bytes:
    """Return the client's first message of OAUTHBEARER."""
    return f"{header}\x01auth=Bearer {token}\x01{more}\x01".encode()


@dataclass
class Issuer:
    """A server that gives its keys and, to ``CLIENT``, tokens for ``user``.

    ``asked`` has the path of each request; ``status`` other than 200 is answered to all of them.
    """

    url: str = ""
    user: str = "alice"
    seconds: float = 300
    keys: bytes = field(default_factory=lambda: jwks_of(jwk_of(KEY, "k1")))
    status: int = 200
    asked: list[str] = field(default_factory=list)
    scopes: list[str] = field(default_factory=list)

    def answer(self, path: str, authorization: str | None, form: str) -> tuple[int, object]:
        self.asked.append(path)
        if self.status != 200:
            return self.status, {"error": "temporarily_unavailable"}
        if path == "/keys":
            return 200, json.loads(self.keys)
        expected = base64.b64encode(":".join(CLIENT).encode()).decode()
        fields = parse_qs(form)
        if authorization != f"Basic {expected}":
            return 401, {"error": "invalid_client", "error_description": "unknown client"}
        if fields.get("grant_type") != ["client_credentials"]:
            return 400, {"error": "unsupported_grant_type"}
        self.scopes += fields.get("scope", [])
        token = sign(claims_of(self.user, seconds=self.seconds))
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.seconds}


@contextmanager
def running_issuer(authority: Authority) -> Iterator[Issuer]:
    """Run an issuer on 127.0.0.1 with a certificate of ``authority`` until the block ends."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # the connection stays open unless the client asks for less

        def do_GET(self) -> None:
            self._answer("")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _answer(self, form: str) -> None:
            status, answer = issuer.answer(self.path, self.headers["Authorization"], form)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("issuer", "127.0.0.1", "localhost"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        issuer.url = f"https://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
