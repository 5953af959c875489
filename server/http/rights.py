"""What a token may do: its right, the collections that it sees, and how many requests it may send;
:func:`rights_of_caller` returns those of the running request."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from hmac import compare_digest
from math import ceil
from pathlib import Path
from typing import Annotated

from aiolimiter import AsyncLimiter
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from leanrag_engine.core.errors import InvalidInput

from ..engine_handle import RIGHTS, Right, Rights

COLLECTIONS_CLAIM = "leanrag_collections"
"""Claim of an OAuth token: a list of the collections that it sees; without it, all."""


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


class ListedTokens:
    """The tokens of a file. Hashes are compared in constant time, all of them at each request."""

    def __init__(self, entries: Mapping[str, _TokenEntry]) -> None:
        self._granted = [
            (bytes.fromhex(entry.sha256), name, Rights(entry.right, tuple(entry.collections or ()), name))
            for name, entry in entries.items()
        ]
        self.limits = {name: entry.requests_per_minute for name, entry in entries.items()}

    async def verify_token(self, token: str) -> AccessToken | None:
        digest = sha256(token.encode()).digest()
        found = [each for each in self._granted if compare_digest(digest, each[0])]
        if not found:
            return None
        _, name, rights = found[0]
        return GrantedToken(token=token, client_id=name, scopes=[], rights=rights)


def read_tokens(file: Path) -> ListedTokens:
    """Read a TOML file with a table for each token. Raises ``InvalidInput`` that names the table and the key."""
    try:
        entries = TypeAdapter(dict[str, _TokenEntry]).validate_python(
            tomllib.loads(file.expanduser().read_text(encoding="utf-8"))
        )
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise _unusable(file, reason) from problem
    except ValidationError as problem:
        first = problem.errors(include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise _unusable(file, f"{place}: {first['msg']}") from problem
    hashes = [entry.sha256 for entry in entries.values()]
    if not entries or len(set(hashes)) < len(hashes):
        raise _unusable(file, "two tables have one sha256" if entries else "it names no token")
    return ListedTokens(entries)


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
        claimed = (accepted.claims or {}).get(COLLECTIONS_CLAIM)
        rights = rights_of_claims(accepted.scopes, claimed)
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
