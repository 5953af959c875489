"""The settings: name, default, meaning; of each also an option or ``LEANRAG_`` + the name, else the user's TOML file, which
several data folders share. The command line's options and the table in .docs/settings.md are made from this class."""

import os
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from platformdirs import user_config_path, user_data_path
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from .errors import InvalidInput
from .text.nearest import find_nearest

COLLECTION_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"

EMBEDDERS = ("auto", "minilm", "e5", "fitted")  # Those that a single word names

ServiceAddress = Annotated[str, Field(pattern=r"^(https?://[^\s/]+.*)?$")]


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"LEANRAG_{name.upper()}"


def config_file() -> Path:
    """Return the file of settings: that of ``LEANRAG_CONFIG``, else ``config.toml`` in the user's configuration folder."""
    given = os.environ.get("LEANRAG_CONFIG")
    return Path(given).expanduser() if given else user_config_path("leanrag", appauthor=False) / "config.toml"


class Settings(BaseSettings):
    """Settings of one engine. Wrong values are errors."""

    model_config = SettingsConfigDict(
        env_prefix="LEANRAG_", env_ignore_empty=True, extra="forbid", frozen=True
    )

    data_dir: Path = Field(default_factory=lambda: user_data_path("leanrag", appauthor=False))
    """Folder that holds the graph store and the vector store."""
    database_url: str = ""
    """PostgreSQL database (postgresql://user:password@host/name) that replaces the SQLite file in data_dir; needs the extra postgres."""
    chroma_url: ServiceAddress = ""
    """Chroma server (http://host:8000) that keeps the vectors, in place of a folder in data_dir."""
    chroma_token: SecretStr = SecretStr("")
    """Token for the Chroma server, sent as Authorization: Bearer and as X-Chroma-Token."""
    allow_dirs: Annotated[tuple[Path, ...], NoDecode] = ()
    """Folders beneath which the server may read documents, separated as in PATH; none: it reads no path."""
    collection: str = Field(default="default", pattern=COLLECTION_NAME)
    """The collection used when none is named."""
    read_only: bool = False
    """Offer no tool that writes."""
    toolsets: Annotated[tuple[Literal["read", "manage", "agent"], ...], NoDecode] = Field(
        default=("read", "manage", "agent"), min_length=1
    )
    """Which tools the server offers: read, manage (ingest, build, delete), agent (do a model's work)."""
    embedder: str = Field(default="auto", min_length=1)
    """What turns text into vectors: auto (minilm; if an eighth of the passages is not English, e5 where installed, else fitted for scripts other than Latin), minilm, e5 (a hundred languages, extra [e5]), fitted, litellm/MODEL, or a sentence-transformers name or folder."""
    embedder_api_base: ServiceAddress = ""
    """Address of the service of a litellm embedder, if it is not its provider's own."""
    embedder_window: int = Field(default=0, ge=0)
    """Tokens of a text that a litellm embedder reads at once; 0: what is known of the model, else 512."""
    llm_model: str = ""
    """Chat model that writes texts, as litellm calls it (openai/gpt-4o-mini); everything works without."""
    llm_writes: Literal["all", "summaries"] = "all"
    """What the chat model does in a build: all, or summaries of clusters alone, on the graph that is found without it (a tenth of the calls); `build --upgrade` does all."""
    llm_api_base: ServiceAddress = ""
    """Address of the chat model's service, if it is not its provider's own."""
    llm_concurrency: int = Field(default=8, ge=1, le=256)
    """Calls of a chat model that may be under way at once."""
    llm_silence_seconds: float = Field(default=60, gt=0)
    """Seconds without an answer after which a chat model's service counts as dead; more for a slow local model."""
    llm_requests_per_minute: int = Field(default=0, ge=0)
    """Most calls of a chat model in a minute; 0: no limit."""
    llm_tokens_per_minute: int = Field(default=0, ge=0)
    """Most tokens, in and out, of a chat model in a minute; 0: no limit."""
    llm_batch: int = Field(default=4, ge=1, le=32)
    """Small tasks (short chunks, pairs, clusters) that one call may do."""
    max_calls: int = Field(default=0, ge=0)
    """Most model calls that one build makes; 0: no cap."""
    max_tokens: int = Field(default=0, ge=0)
    """Most tokens, in and out, that one build's model calls use; 0: no cap."""
    max_cost: float = Field(default=0, ge=0)
    """Most US dollars that one build's model calls cost; 0: no cap."""
    extraction_model: str = ""
    """Chat model that reads chunks, such as a cheaper one; else the one that writes."""
    extraction_api_base: ServiceAddress = ""
    """Address of the extraction model's service; else that of the chat model's, if its provider is the same."""
    gleaning: int = Field(default=0, ge=0, le=3)
    """Further calls for each chunk that ask what the first one missed."""
    prompts_dir: Path | None = None
    """Folder of prompts of your own, each named as the one that it replaces."""
    judge_model: str = ""
    """Chat model that judges answers in an evaluation; else it is the one that writes."""
    judge_api_base: ServiceAddress = ""
    """Address of the judge's service; else that of the chat model's, if its provider is the same."""
    chunk_tokens: int = Field(default=512, ge=32, le=8192)
    """Largest chunk, in tokens."""
    chunk_overlap: int = Field(default=64, ge=0, le=4096)
    """Tokens that neighbouring chunks share."""
    clustering: Literal["gmm", "leiden"] = "gmm"
    """How clusters are found: gmm by meaning (the paper), leiden by relations."""
    cluster_size: int = Field(default=20, ge=2, le=200)
    """Mean number of members of a cluster."""
    cluster_cap: int = Field(default=0, ge=0, le=400)
    """Most members that a cluster may have; 0: half as many again as its mean size, 30 for 20."""
    tau: Annotated[int, Field(ge=0)] | Literal["auto"] = 3
    """Threshold τ: above it, a relation between clusters gets a sentence of its own; auto: by relation_calls."""
    relation_calls: int = Field(default=100, ge=0)
    """Model calls for relations that τ auto aims at, on each layer."""
    workers: int = Field(default=0, ge=0, le=256)
    """Processes that read documents beside each other; 1: none but this one, 0: one for each processor where there is more than a megabyte to read."""
    dask: str = ""
    """Dask scheduler (tcp://host:8786) whose workers read documents where there is more than a megabyte; needs the extra dask."""
    telemetry: bool = False
    """Send OpenTelemetry traces and metrics by OTLP to OTEL_EXPORTER_OTLP_ENDPOINT (that variable alone asks for it too); no text of documents or questions."""
    kept_generations: int = Field(default=3, ge=2, le=100)
    """Builds whose data are kept, the published one included."""
    kept_days: int = Field(default=30, ge=0)
    """Days for which the data of a replaced build are kept at most."""
    max_document_mb: int = Field(default=200, ge=1)
    """Largest file that is read, in megabytes."""
    max_parse_seconds: float = Field(default=60, gt=0)
    """Most seconds for one document, and for each megabyte of its file: for opening a PDF, Word file or large page, and for cutting and extracting a long text."""
    max_text_characters: int = Field(default=20_000_000, ge=10_000)
    """Longest text of a document that is cut and extracted."""
    max_parse_mb: int = Field(default=2048, ge=256)
    """Most memory for this, in megabytes (Linux)."""
    max_call_seconds: float = Field(default=30, gt=0)
    """Most seconds for a call of a tool that reads; opening the store does not count, nor does a chat model."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read what is given, then the environment, then the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, config_file())

    @field_validator("allow_dirs", mode="before")
    @classmethod
    def _split_path(cls, value: object) -> object:
        """Split folders as in PATH: that is their form in the environment."""
        return tuple(filter(None, value.split(os.pathsep))) if isinstance(value, str) else value

    @field_validator("embedder")
    @classmethod
    def _check_embedder(cls, value: str) -> str:
        """Refuse a word that is none of ours, nor like the name of a model, which has a hyphen or slash, nor a folder."""
        if value in EMBEDDERS or {"/", os.sep} & {*value} or Path(value).expanduser().is_dir():
            return value
        if "-" in value and not find_nearest(value, EMBEDDERS, cutoff=0.75):
            return value
        words = ", ".join(map(repr, EMBEDDERS))
        raise ValueError(
            f"Input should be {words}, 'litellm/MODEL', or a sentence-transformers name or folder"
        )

    @field_validator("toolsets", mode="before")
    @classmethod
    def _split_commas(cls, value: object) -> object:
        """Split toolsets at commas: that is their form in the environment and on the command line."""
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.chunk_overlap >= self.chunk_tokens:
            raise ValueError(
                f"chunk_overlap {self.chunk_overlap} must be below chunk_tokens {self.chunk_tokens}"
            )
        if 0 < self.cluster_cap < self.cluster_size:
            raise ValueError(
                f"cluster_cap {self.cluster_cap} must not be below cluster_size {self.cluster_size}"
            )
        return self


def load_settings(**overrides: object) -> Settings:
    """Read settings from the environment and the file, overridden by ``overrides`` that are not None. Raises :class:`InvalidInput`."""
    given = {name: value for name, value in overrides.items() if value is not None}
    check_variables(Settings, but=("http", "tests_"))
    try:
        return Settings(**given)  # type: ignore[arg-type] # pydantic checks each value itself
    except ValidationError as problem:
        first = problem.errors()[0]
        if not first["loc"]:
            raise InvalidInput(
                f"The settings do not fit together: {first['msg']}.", "Change one."
            ) from problem
        name = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            unknown = unknown_setting(name)
            if name in given:
                raise unknown from problem
            raise InvalidInput(
                unknown.message, f"It stands in {config_file()}: take it out. {unknown.next_step}"
            ) from problem
        expected = first["msg"].removeprefix("Value error, ")
        near = find_nearest(str(first["input"]), re.findall(r"'([^']+)'", expected))
        raise InvalidInput(
            f"Setting {name} cannot be {first['input']!r}: {expected}.",
            f"{f'Did you mean {near[0]}? ' if near else ''}`leanrag config set {name} VALUE` sets it in {config_file()}; {variable_of(name)} and options go before that.",
        ) from problem
    except ValueError as problem:
        # Of the TOML library: a ValidationError is a ValueError too, and was caught above.
        raise InvalidInput(
            f"{config_file()} is no TOML file: {problem}.", "Correct it, or remove it."
        ) from problem


_OF_SERVICE = re.compile(r".*_(SERVICE_(HOST|PORT).*|PORT_\d+_(TCP|UDP).*)=.*|.*_PORT=.*://.*", re.DOTALL)
"""What Kubernetes tells every container of services whose names begin with *leanrag*."""


def check_variables(settings: type[BaseSettings], within: str = "", but: tuple[str, ...] = ()) -> None:
    """Raise ``InvalidInput`` for a ``LEANRAG_`` variable that begins with ``within`` and sets nothing: it would be ignored silently."""
    known = {"config", *settings.model_fields}
    given = [each for each in os.environ.items() if each[0][:8] == "LEANRAG_" and each[1]]
    for name in (each[0][8:].lower() for each in given if not _OF_SERVICE.fullmatch("=".join(each))):
        if name.startswith(within) and not name.startswith(but) and name not in known:
            problem = unknown_setting(name, settings)
            raise InvalidInput(problem.message, f"{variable_of(name)} is set: unset it. {problem.next_step}")


def unknown_setting(name: str, settings: type[BaseSettings] = Settings) -> InvalidInput:
    near = find_nearest(name, settings.model_fields, 3, cutoff=0.63)
    return InvalidInput(
        f"There is no setting {name!r}.",
        f"Did you mean {', '.join(near)}?" if near else "See `leanrag config list`.",
    )
