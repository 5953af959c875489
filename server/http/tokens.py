"""Access control over HTTP: no token, one shared, a file of tokens, or an OAuth issuer's. The SDK checks
header, expiry, scopes and audience (RFC 9728); verifiers here decide what a token means: its right, the collections that
it sees, and how many requests it may send. :func:`rights_of_caller` returns those of the running request."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from hmac import compare_digest
from logging import getLogger
from math import ceil
from pathlib import Path
from typing import Annotated, Any

import anyio.to_thread
import httpx2
import jwt
from aiolimiter import AsyncLimiter
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from leanrag_engine.core.errors import InvalidInput

from ..engine_handle import RIGHTS, Right, Rights
from .settings import Address, HttpSettings

COLLECTIONS_CLAIM = "leanrag_collections"
"""Claim of an OAuth token: a list of the collections that it sees; without it, all."""

SIGNATURES = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a private key. A token signed with a shared secret could be forged by every verifier."""

ISSUER_TIMEOUT_S = 10

logger = getLogger(__name__)


class IssuerUnavailable(Exception):
    """The issuer could not be reached to check a token: not the caller's fault."""


@dataclass(frozen=True, slots=True)
class Access:
    """How clients authenticate; both ``None``: not at all."""

    auth: AuthSettings | None = None
    verifier: TokenVerifier | None = None


def access_of(settings: HttpSettings, address: Address) -> Access:
    """Return the access control of the settings. Raises ``InvalidInput`` for contradictions, and for a server open to all."""
    token = read_shared_token(settings)
    oauth = bool(settings.http_oauth_issuer or settings.http_oauth_resource)
    if sum([bool(token), settings.http_tokens_file is not None, oauth]) > 1:
        raise InvalidInput(
            "More than one of a bearer token, a file of tokens and an OAuth issuer is set: expected one of them.",
            "Unset all but one of LEANRAG_HTTP_TOKEN (or --http-token-file), LEANRAG_HTTP_TOKENS_FILE and "
            "LEANRAG_HTTP_OAUTH_ISSUER.",
        )
    if oauth:
        return limit_requests(oauth_access(settings), settings)
    # The SDK requires an issuer even where it never shows it.
    auth = AuthSettings(issuer_url=AnyHttpUrl("http://localhost"), resource_server_url=None)
    if settings.http_tokens_file is not None:
        tokens, limits = read_tokens(settings.http_tokens_file)
        return limit_requests(Access(auth, tokens), settings, limits)
    if token:
        shared = KnownTokens([(sha256(token.encode()).digest(), "shared-token", Rights())])
        return limit_requests(Access(auth, shared), settings)
    if not address.is_loopback:
        raise InvalidInput(
            f"Not serving at {address}: others can reach it, and no token is set.",
            "Make a token (python -c 'import secrets; print(secrets.token_urlsafe(32))') and give it in "
            "LEANRAG_HTTP_TOKEN or in a file with --http-token-file, or set LEANRAG_HTTP_OAUTH_ISSUER; "
            "or serve at 127.0.0.1.",
        )
    return Access()


def limit_requests(access: Access, settings: HttpSettings, limits: Mapping[str, int] | None = None) -> Access:
    """Limit how many requests a minute each client may send; ``limits`` are those of single clients."""
    assert access.verifier is not None
    verifier = LimitedRequests(access.verifier, settings.http_requests_per_minute, limits or {})
    return Access(access.auth, verifier)


def read_shared_token(settings: HttpSettings) -> str:
    """Return the token from the environment or the file; empty without either. Raises ``InvalidInput`` without showing it."""
    token, source = settings.http_token.get_secret_value(), "LEANRAG_HTTP_TOKEN"
    if (file := settings.http_token_file) is not None:
        if token:
            raise InvalidInput(
                "Both LEANRAG_HTTP_TOKEN and a token file are set: expected one of them.", "Unset one."
            )
        token, source = token_in(file.expanduser()), f"the file {file}"
    elif not token:
        return ""
    shortest = 16  # a shorter token could be guessed
    if len(token) < shortest or not all("!" <= sign <= "~" for sign in token):
        raise InvalidInput(
            f"The token in {source} cannot be used: expected {shortest} or more letters, digits and signs, "
            f"without spaces; it has {len(token)}.",
            "Make one with python -c 'import secrets; print(secrets.token_urlsafe(32))'.",
        )
    return token


def token_in(file: Any) -> str:
    try:
        return str(file.read_text(encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not text"
        raise InvalidInput(
            f"Cannot read the token file {file}: {reason}.",
            "Give another with --http-token-file or LEANRAG_HTTP_TOKEN_FILE.",
        ) from problem


def oauth_access(settings: HttpSettings) -> Access:
    """Return access by tokens of an issuer, signed or introspected."""
    ways = [settings.http_oauth_jwks_url, settings.http_oauth_introspection_url]
    if not (settings.http_oauth_issuer and settings.http_oauth_resource and sum(map(bool, ways)) == 1):
        raise InvalidInput(
            "The OAuth settings do not fit together: expected LEANRAG_HTTP_OAUTH_ISSUER, LEANRAG_HTTP_OAUTH_RESOURCE "
            "and one of LEANRAG_HTTP_OAUTH_JWKS_URL and LEANRAG_HTTP_OAUTH_INTROSPECTION_URL.",
            "Set what is missing.",
        )
    # As strings: an address object gains a trailing slash, and clients compare issuers character by character.
    auth = AuthSettings.model_validate(
        {
            "issuer_url": settings.http_oauth_issuer,
            "resource_server_url": settings.http_oauth_resource,
            "required_scopes": list(settings.http_oauth_scopes) or None,
            "validate_token_resource": True,
        }
    )
    verifier: TokenVerifier = (
        SignedTokens(settings) if settings.http_oauth_jwks_url else IntrospectedTokens(settings)
    )
    return Access(auth, ClaimedRights(verifier) if settings.http_oauth_rights else verifier)


class SignedTokens:
    """JWT access tokens (RFC 9068), checked against the keys that the issuer publishes."""

    def __init__(self, settings: HttpSettings) -> None:
        self._issuer, self._resource = settings.http_oauth_issuer, settings.http_oauth_resource
        # The client caches the keys for five minutes and looks up unknown ones at most twice a minute.
        self._keys = jwt.PyJWKClient(settings.http_oauth_jwks_url, timeout=ISSUER_TIMEOUT_S)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the token's claims, ``None`` if it is invalid. Raises ``IssuerUnavailable`` if the keys cannot be fetched."""
        try:
            claims = await anyio.to_thread.run_sync(self._claims, token)
        except jwt.PyJWKClientConnectionError as problem:
            raise IssuerUnavailable(str(problem)) from problem
        except jwt.PyJWTError as problem:
            logger.info("An access token was refused: %s", problem)
            return None
        return access_token(token, claims, self._resource)

    def _claims(self, token: str) -> Mapping[str, Any]:
        claims: Mapping[str, Any] = jwt.decode(
            token,
            self._keys.get_signing_key_from_jwt(token).key,
            algorithms=list(SIGNATURES),
            issuer=self._issuer,
            leeway=30,  # seconds by which clocks may differ
            # The SDK checks the audience: it compares URLs, not strings.
            options={"require": ["exp", "iss", "aud"], "verify_aud": False},
        )
        return claims


class IntrospectedTokens:
    """Opaque access tokens: the issuer is asked about each (RFC 7662), so that revocation takes effect at once."""

    def __init__(self, settings: HttpSettings) -> None:
        self._issuer, self._resource = settings.http_oauth_issuer, settings.http_oauth_resource
        self._url = settings.http_oauth_introspection_url
        name, secret = settings.http_oauth_client_id, settings.http_oauth_client_secret.get_secret_value()
        self._credentials = httpx2.BasicAuth(name, secret) if name else None

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the issuer's claims for the token, ``None`` if inactive. Raises ``IssuerUnavailable`` without an answer."""
        try:
            async with httpx2.AsyncClient(timeout=ISSUER_TIMEOUT_S, auth=self._credentials) as client:
                reply = await client.post(self._url, data={"token": token, "token_type_hint": "access_token"})
                reply.raise_for_status()
                claims = reply.json()
        except (httpx2.HTTPError, ValueError) as problem:
            raise IssuerUnavailable(str(problem)) from problem
        if not isinstance(claims, dict) or claims.get("active") is not True:
            return None
        if claims.get("iss", self._issuer) != self._issuer:
            logger.info("An access token was refused: its issuer is %r", claims["iss"])
            return None
        return access_token(token, claims, self._resource)


def access_token(token: str, claims: Mapping[str, Any], resource: str) -> AccessToken:
    """Convert claims to the SDK's token. Of several audiences, take the one that is this server."""
    audiences = claims.get("aud", ())
    audiences = [audiences] if isinstance(audiences, str) else list(audiences)
    here = [each for each in audiences if str(each).rstrip("/") == resource.rstrip("/")]
    subject = claims.get("sub")
    # One string (RFC 8693); some issuers send a list, or name it ``scp``.
    scopes = claims.get("scope", claims.get("scp", ""))
    return AccessToken(
        token=token,
        client_id=str(claims.get("client_id") or claims.get("azp") or subject or "unknown"),
        scopes=scopes.split() if isinstance(scopes, str) else [str(each) for each in scopes],
        expires_at=int(claims["exp"]) if "exp" in claims else None,
        resource=str([*here, *audiences, ""][0]) or None,
        subject=None if subject is None else str(subject),
        claims={key: claims[key] for key in ("iss", COLLECTIONS_CLAIM) if key in claims} or None,
    )


# --- rights --------------------------------------------------------------------------------


class TooManyRequests(Exception):
    """A token sent more requests than it may."""

    def __init__(self, per_minute: int) -> None:
        super().__init__(f"This token may send {per_minute} requests a minute.")
        self.retry_after = ceil(60 / per_minute)


class GrantedToken(AccessToken):
    """An accepted token with its rights."""

    rights: Rights = Rights()


def rights_of_caller() -> Rights:
    """Return the rights of the running request; without a token, all."""
    token = get_access_token()
    return token.rights if isinstance(token, GrantedToken) else Rights()


class _TokenEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    right: Right
    collections: Annotated[list[str], Field(min_length=1)] | None = None
    requests_per_minute: Annotated[int, Field(ge=0)] = 0


class KnownTokens:
    """One token for all clients, or the tokens of a file: each by its hash, with the client's name and its rights. Hashes are compared
    in constant time, all of them at each request, so that neither bytes nor length leak."""

    def __init__(self, granted: Sequence[tuple[bytes, str, Rights]]) -> None:
        self._granted = granted

    async def verify_token(self, token: str) -> AccessToken | None:
        digest = sha256(token.encode()).digest()
        found = [each for each in self._granted if compare_digest(digest, each[0])]
        if not found:
            return None
        _, name, rights = found[0]
        return GrantedToken(token=token, client_id=name, scopes=[], rights=rights)


def read_tokens(file: Path) -> tuple[KnownTokens, Mapping[str, int]]:
    """Read a TOML file with a table for each token; return them and their limits by client. Raises ``InvalidInput`` that names the table and the key."""
    try:
        entries = TypeAdapter(dict[str, _TokenEntry]).validate_python(
            tomllib.loads(file.expanduser().read_text(encoding="utf-8"))
        )
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise _unusable(file, getattr(problem, "strerror", None) or str(problem)) from problem
    except ValidationError as problem:
        first = problem.errors(include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise _unusable(file, f"{place}: {first['msg']}") from problem
    hashes = [entry.sha256 for entry in entries.values()]
    if not entries or len(set(hashes)) < len(hashes):
        raise _unusable(file, "two tables have one sha256" if entries else "it names no token")
    granted = [
        (bytes.fromhex(entry.sha256), name, Rights(entry.right, tuple(entry.collections or ()), name))
        for name, entry in entries.items()
    ]
    return KnownTokens(granted), {name: entry.requests_per_minute for name, entry in entries.items()}


def _unusable(file: Path, reason: str) -> InvalidInput:
    return InvalidInput(
        f"Cannot use the file of tokens {file}: {reason}.",
        "Expected a table for each token, named as logs shall call it, with `sha256` (hexadecimal, of the token), `right` "
        "(read, write or admin) and, if it is limited, `collections` and `requests_per_minute`.",
    )


def rights_of_claims(scopes: list[str], collections: object) -> Rights | None:
    """Return what the scopes ``leanrag:read``, ``:write`` and ``:admin`` and a claim with collections grant;
    None for nothing or no list."""
    granted = [right for right in RIGHTS if f"leanrag:{right}" in scopes]
    if not granted:
        return None
    if collections is None:
        return Rights(granted[-1])
    if not isinstance(collections, list) or not collections:
        return None
    return Rights(granted[-1], tuple(map(str, collections)))


class ClaimedRights:
    """Accepts the tokens of another verifier that carry a scope of this server, with the rights of their scopes."""

    def __init__(self, inner: TokenVerifier) -> None:
        self._inner = inner

    async def verify_token(self, token: str) -> AccessToken | None:
        accepted = await self._inner.verify_token(token)
        if accepted is None:
            return None
        rights = rights_of_claims(accepted.scopes, (accepted.claims or {}).get(COLLECTIONS_CLAIM))
        if rights is None:
            return None
        return GrantedToken(**accepted.model_dump(), rights=replace(rights, holder=accepted.client_id))


class LimitedRequests:
    """Refuses the requests of a token beyond so many a minute."""

    def __init__(self, inner: TokenVerifier, per_minute: int, limits: Mapping[str, int]) -> None:
        """``per_minute`` holds for clients that ``limits`` does not name; 0: no limit."""
        self._inner = inner
        self._per_minute = per_minute
        self._limits = limits
        self._limiters: dict[str, AsyncLimiter] = {}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what the inner verifier does. Raises :class:`TooManyRequests`."""
        accepted = await self._inner.verify_token(token)
        if accepted is None:
            return None
        most = self._limits.get(accepted.client_id) or self._per_minute
        if most:
            limiter = self._limiters.setdefault(accepted.client_id, AsyncLimiter(most, 60))
            if not limiter.has_capacity():
                raise TooManyRequests(most)
            await limiter.acquire()
        return accepted
