"""Access tokens of an OAuth issuer: a real issuer's endpoints on loopback, and the whole server before them."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio
import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.testclient import TestClient

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import InvalidInput
from leanrag_mcp.app import create_server
from leanrag_mcp.engine_handle import Rights
from leanrag_mcp.http.serving import http_app
from leanrag_mcp.http.settings import Address, address_of, load_http_settings
from leanrag_mcp.http.tokens import Access, GrantedToken, access_of

RESOURCE = "https://rag.example/mcp"
HERE = Address("127.0.0.1", 8000)
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
SECRET = "kept-between-server-and-issuer"  # noqa: S105 - of an issuer that lives for a test


class Issuer(ThreadingHTTPServer):
    """An authorization server: publishes a key and knows which opaque tokens are live."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), IssuerHandler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.live: dict[str, Mapping[str, Any]] = {}
        self.asked: list[str] = []

    def claims(self, **changed: Any) -> dict[str, Any]:
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": RESOURCE,
            "sub": "ada",
            "client_id": "editor",
            "scope": "read write",
        }
        return {
            key: value for key, value in ({**claims, "exp": now + 600} | changed).items() if value is not None
        }

    def sign(self, *, key: Any = KEY, algorithm: str = "RS256", kid: str = "one", **changed: Any) -> str:
        return jwt.encode(
            self.claims(**changed), key, algorithm=algorithm, headers={"kid": kid, "typ": "at+jwt"}
        )


class IssuerHandler(BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        self.server.asked.append("keys")
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
        self.answer({"keys": [{**key, "kid": "one", "use": "sig", "alg": "RS256"}]})

    def do_POST(self) -> None:
        expected = "Basic " + base64.b64encode(f"leanrag:{SECRET}".encode()).decode()
        if self.headers["authorization"] != expected:
            self.send_error(401)
            return
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        self.server.asked.append(form["token"][0])
        self.answer({"active": False} | dict(self.server.live.get(form["token"][0], {})))

    def answer(self, reply: Mapping[str, Any]) -> None:
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def access(issuer: Issuer, **more: Any) -> Access:
    given = {"http_oauth_issuer": issuer.url, "http_oauth_resource": RESOURCE, "http_oauth_scopes": ("read",)}
    return access_of(load_http_settings(**given, **more), HERE)


def signing_key_settings(issuer: Issuer) -> dict[str, Any]:
    return {"http_oauth_jwks_url": f"{issuer.url}/keys"}


def introspection_settings(issuer: Issuer) -> dict[str, Any]:
    return {
        "http_oauth_introspection_url": f"{issuer.url}/introspect",
        "http_oauth_client_id": "leanrag",
        "http_oauth_client_secret": SECRET,
    }


@contextmanager
def client_with(folder: Path, allowed: Access) -> Iterator[TestClient]:
    server = create_server(load_settings(data_dir=folder), auth=allowed.auth, token_verifier=allowed.verifier)
    app = http_app(server, load_http_settings(http_oauth_resource=RESOURCE), HERE)
    with TestClient(app, base_url="https://rag.example") as client:
        yield client


def ping(client: TestClient, token: str) -> httpx2.Response:
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    return client.post("/mcp", json=body, headers=headers)  # type: ignore[return-value] # the same shape


LET_IN = 400  # as far as the protocol, which misses a handshake


def test_a_signed_token_is_accepted_and_the_keys_are_fetched_once(issuer: Issuer, tmp_path: Path) -> None:
    with client_with(tmp_path, access(issuer, **signing_key_settings(issuer))) as client:
        for changed in ({}, {"aud": ["https://other.example", RESOURCE]}, {"scope": None, "scp": ["read"]}):
            assert ping(client, issuer.sign(**changed)).status_code == LET_IN
    assert issuer.asked == ["keys"]


FORGED: dict[str, Callable[[Issuer], str]] = {
    "of another audience": lambda issuer: issuer.sign(aud="https://other.example/mcp"),
    "of no audience": lambda issuer: issuer.sign(aud=None),
    "of another issuer": lambda issuer: issuer.sign(iss="https://evil.example"),
    "expired": lambda issuer: issuer.sign(exp=int(time.time()) - 3600),
    "that never expires": lambda issuer: issuer.sign(exp=None),
    "signed with another key": lambda issuer: issuer.sign(key=OTHER_KEY),
    "signed with an unknown key": lambda issuer: issuer.sign(key=OTHER_KEY, kid="two"),
    "signed with a shared secret": lambda issuer: issuer.sign(key="x" * 32, algorithm="HS256"),
    "not signed": lambda issuer: issuer.sign(key=None, algorithm="none"),
    "that is no token": lambda _: "not.a.token",
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_token_is_refused(issuer: Issuer, tmp_path: Path, kind: str) -> None:
    with client_with(tmp_path, access(issuer, **signing_key_settings(issuer))) as client:
        reply = ping(client, FORGED[kind](issuer))
    assert reply.status_code == 401, kind
    assert reply.json()["error"] == "invalid_token"


def test_the_refusal_of_a_token_names_the_missing_scope(issuer: Issuer, tmp_path: Path) -> None:
    with client_with(tmp_path, access(issuer, **signing_key_settings(issuer))) as client:
        reply = ping(client, issuer.sign(scope="write"))
    assert reply.status_code == 403
    assert reply.json() == {"error": "insufficient_scope", "error_description": "Required scope: read"}


def test_an_opaque_token_is_checked_at_every_request_so_that_revoking_it_takes_effect_at_once(
    issuer: Issuer, tmp_path: Path
) -> None:
    issuer.live["good"] = {**issuer.claims(), "active": True}
    issuer.live["for another"] = {**issuer.claims(aud="https://other.example"), "active": True}
    issuer.live["from another"] = {**issuer.claims(iss="https://evil.example"), "active": True}
    issuer.live["odd"] = {**issuer.claims(), "active": "true"}
    with client_with(tmp_path, access(issuer, **introspection_settings(issuer))) as client:
        assert ping(client, "good").status_code == LET_IN
        for refused in ("for another", "from another", "odd", "unknown"):
            assert ping(client, refused).status_code == 401, refused
        del issuer.live["good"]
        assert ping(client, "good").status_code == 401


def test_the_metadata_names_the_issuer_of_tokens(issuer: Issuer, tmp_path: Path) -> None:
    with client_with(tmp_path, access(issuer, **signing_key_settings(issuer))) as client:
        challenge = client.post("/mcp", json={}).headers["www-authenticate"]
        path = "/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="https://rag.example{path}"' in challenge
        published = client.get(path).json()
    assert published["resource"] == RESOURCE
    assert published["authorization_servers"] == [issuer.url]
    assert published["scopes_supported"] == ["read"]


@pytest.mark.parametrize("way", [signing_key_settings, introspection_settings])
def test_an_issuer_that_is_down_is_not_the_callers_fault(
    tmp_path: Path, way: Callable[[Issuer], Any]
) -> None:
    with Issuer() as gone:
        allowed = access(gone, **way(gone))
        token = gone.sign()
    with client_with(tmp_path, allowed) as client:
        reply = ping(client, token)
    assert reply.status_code == 503
    assert reply.json()["error"] == "temporarily_unavailable"
    assert reply.headers["retry-after"]


def test_an_issuer_that_does_not_know_this_server_is_not_the_callers_fault_either(
    issuer: Issuer, tmp_path: Path
) -> None:
    with client_with(
        tmp_path, access(issuer, **introspection_settings(issuer) | {"http_oauth_client_secret": "wrong"})
    ) as client:
        assert ping(client, "good").status_code == 503


@pytest.mark.parametrize(
    "settings",
    [
        {"http_oauth_issuer": "https://issuer.example"},
        {"http_oauth_resource": RESOURCE},
        {"http_oauth_issuer": "https://issuer.example", "http_oauth_resource": RESOURCE},
        {
            "http_oauth_issuer": "https://issuer.example",
            "http_oauth_resource": RESOURCE,
            "http_oauth_jwks_url": "https://issuer.example/keys",
            "http_oauth_introspection_url": "https://issuer.example/introspect",
        },
    ],
)
def test_incomplete_oauth_settings_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="do not fit together"):
        access_of(load_http_settings(**settings), HERE)


def test_two_kinds_of_token_at_once_are_refused() -> None:
    both = {"http_token": "x" * 16, "http_oauth_issuer": "https://issuer.example"}
    with pytest.raises(InvalidInput, match="expected one of them"):
        access_of(load_http_settings(**both), HERE)


ENTRY = f'[reports]\nsha256 = "{"a" * 64}"\nright = "read"\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "names no token"),
        ("[reports\n", "line 1"),
        (ENTRY.replace("read", "reed"), "reports.right: Input should be 'read', 'write' or 'admin'"),
        (ENTRY.replace("a" * 64, "letmein"), "reports.sha256"),
        (ENTRY + 'collection = "one"\n', "reports.collection: Extra inputs"),
        (ENTRY + "requests_per_minute = -1\n", "reports.requests_per_minute"),
        (ENTRY + "collections = []\n", "reports.collections: List should have at least 1 item"),
        (ENTRY + ENTRY.replace("reports", "more"), "two tables have one sha256"),
    ],
)
def test_a_file_of_tokens_that_cannot_be_used_is_refused_with_the_key_and_without_the_hash(
    tmp_path: Path, text: str, reason: str
) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as refusal:
        access_of(load_http_settings(http_tokens_file=file), HERE)
    assert reason in str(refusal.value)
    assert "letmein" not in str(refusal.value)
    assert "a" * 64 not in str(refusal.value)


def test_scopes_and_a_claim_of_an_oauth_token_are_its_rights(issuer: Issuer) -> None:
    settings = {**signing_key_settings(issuer), "http_oauth_rights": True}
    verifier = access(issuer, **settings).verifier
    assert verifier is not None

    def rights(**claims: Any) -> Rights | None:
        token = anyio.run(verifier.verify_token, issuer.sign(**claims))
        return token.rights if isinstance(token, GrantedToken) else None

    assert rights(scope="read leanrag:read", leanrag_collections=["one"]) == Rights(
        "read", ("one",), "editor"
    )
    assert rights(scope="read leanrag:read leanrag:admin") == Rights("admin", holder="editor")
    # Nothing is granted by default, nor by a claim that is no list of names.
    assert rights(scope="read write") is None
    assert rights(scope="read leanrag:write", leanrag_collections="one") is None
    assert rights(scope="read leanrag:write", leanrag_collections=[]) is None


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:8000", "127.0.0.1", 8000, True),
        ("127.9.9.9:1", "127.9.9.9", 1, True),
        ("localhost:0", "localhost", 0, True),
        ("[::1]:8000", "::1", 8000, True),
        ("0.0.0.0:8000", "0.0.0.0", 8000, False),  # noqa: S104 - nothing is bound here
        ("[::]:8000", "::", 8000, False),
        ("localhost.evil.example:80", "localhost.evil.example", 80, False),
        ("192.168.1.5:65535", "192.168.1.5", 65535, False),
    ],
)
def test_an_address_knows_whether_other_machines_can_reach_it(
    text: str, host: str, port: int, loopback: bool
) -> None:
    address = address_of(text)
    assert (address.host, address.port, address.is_loopback) == (host, port, loopback)
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "8000",
        ":8000",
        "host",
        "host:",
        "host:x",
        "host:65536",
        "::1:80",
        "[host]:80",
        "a b:80",
        "http://h:1",
    ],
)
def test_an_invalid_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"127\.0\.0\.1:8000"):
        address_of(text)
