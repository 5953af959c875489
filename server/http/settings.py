"""All settings of serving over HTTP: name, default, meaning. The environment variable is ``LEANRAG_`` + the name."""

from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from leanrag_engine.core.config import check_variables, variable_of
from leanrag_engine.core.errors import InvalidInput

HttpsAddress = Annotated[
    str, Field(pattern=r"^$|^https://[^\s/]+(/\S*)?$|^http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/\S*)?$")
]
"""Tokens and keys must not travel in plain text beyond this machine."""

Names = Annotated[tuple[str, ...], NoDecode]


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. A port of 0 lets the system choose."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can connect. A name other than localhost may resolve to any address."""
        with suppress(ValueError):
            return ip_address(self.host).is_loopback
        return self.host == "localhost"

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for every address of this machine."""
        with suppress(ValueError):
            return ip_address(self.host).is_unspecified
        return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(text: str) -> Address:
    """Parse ``HOST:PORT``, an IPv6 host in brackets. Raises ``InvalidInput``."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    is_complete = colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16
    is_strange = (":" in host) != bracketed or any(sign.isspace() or sign in "/@[]" for sign in host)
    if is_strange or not is_complete:
        raise InvalidInput(
            f"Cannot serve HTTP at {text!r}: expected HOST:PORT, such as 127.0.0.1:8000 or [::1]:8000.",
            "Give another value with --http or LEANRAG_HTTP.",
        )
    return Address(host, int(port))


class HttpSettings(BaseSettings):
    """Settings of one HTTP server. Wrong values are errors."""

    model_config = SettingsConfigDict(
        env_prefix="LEANRAG_", env_ignore_empty=True, extra="forbid", frozen=True, hide_input_in_errors=True
    )

    http: str = ""
    """HOST:PORT to serve streamable HTTP at, path /mcp; empty: standard input and output."""
    http_token: SecretStr = SecretStr("")
    """Bearer token that every HTTP client must send; 16 characters or more."""
    http_head_seconds: float = Field(default=20, gt=0)
    """A connection is closed that has not sent a request, headers and body, or not read a response by then; 16 kB allow a second more."""
    http_token_file: Path | None = None
    """File that holds the bearer token, instead of a variable."""
    http_tokens_file: Path | None = None
    """TOML file of several tokens, each with a right (read, write, admin) and, if limited, its collections and requests a minute."""
    http_requests_per_minute: int = Field(default=0, ge=0)
    """Most requests a minute of each token that names no limit; 0: no limit."""
    http_allowed_hosts: Names = ()
    """Names under which clients reach the server (Host header), separated by commas, beside its own address."""
    http_allowed_origins: Names = ()
    """Web pages that may call the server (Origin header), such as https://app.example, separated by commas."""
    http_max_request_mb: int = Field(default=16, ge=1, le=1024)
    """Largest request over HTTP, in megabytes."""
    http_oauth_issuer: HttpsAddress = ""
    """OAuth: address of the authorization server whose access tokens are accepted."""
    http_oauth_resource: HttpsAddress = ""
    """OAuth: public address of this server, with /mcp; a token must name it as its audience."""
    http_oauth_scopes: Names = ()
    """OAuth: scopes that a token must carry, separated by commas."""
    http_oauth_rights: bool = False
    """OAuth: the scopes leanrag:read, leanrag:write, leanrag:admin and the claim leanrag_collections say what a token may do; without such a scope it is refused."""
    http_oauth_jwks_url: HttpsAddress = ""
    """OAuth: where the issuer publishes its keys, if its tokens are signed (JWT)."""
    http_oauth_introspection_url: HttpsAddress = ""
    """OAuth: where the issuer is asked about a token (RFC 7662), if they are not signed."""
    http_oauth_client_id: str = ""
    """OAuth: name under which this server asks the issuer about tokens."""
    http_oauth_client_secret: SecretStr = SecretStr("")
    """OAuth: secret with which this server asks the issuer about tokens."""

    @field_validator("http_allowed_hosts", "http_allowed_origins", "http_oauth_scopes", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """Split names, which in the environment are separated by commas."""
        return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @field_validator("http_allowed_hosts")
    @classmethod
    def _hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if "/" in host or "*" in host or any(map(str.isspace, host)):
                raise ValueError(
                    f"{host!r} is not a host: expected a name such as rag.example or rag.example:8443"
                )
        return tuple(host.lower() for host in hosts)

    @field_validator("http_allowed_origins")
    @classmethod
    def _origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            scheme, separator, rest = origin.partition("://")
            if not (scheme and separator and rest) or "/" in rest or "*" in rest:
                raise ValueError(f"{origin!r} is not an origin: expected one such as https://app.example")
        return origins


def load_http_settings(**overrides: object) -> HttpSettings:
    """Load settings from the environment, overridden by ``overrides`` that are not None. Raises ``InvalidInput``, without secrets."""
    given = {name: value for name, value in overrides.items() if value is not None}
    check_variables(HttpSettings, within="http")
    try:
        return HttpSettings(**given)  # type: ignore[arg-type] # pydantic checks each value itself
    except ValidationError as problem:
        first = problem.errors()[0]
        name = str(first["loc"][0])
        expected = (
            "expected an address that begins with https:// (http:// only on this machine)"
            if first["type"] == "string_pattern_mismatch"
            else first["msg"].removeprefix("Value error, ")
        )
        raise InvalidInput(
            f"Setting {name} is wrong: {expected}.", f"Give another value with {variable_of(name)}."
        ) from problem
