"""Local embedders: any sentence-transformers model, by its name on the model hub or from a folder. The libraries
take seconds to import and the weights take memory, so both are loaded for the first text. A model on this
machine is never downloaded again; if it is missing and the hub cannot be reached, the error comes at once."""

import os
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio.to_thread
import numpy as np

from leanrag_engine.core.errors import InvalidInput, ModelUnavailable
from leanrag_engine.core.model import EmbeddedQueries, Vectors
from leanrag_engine.core.ports import Embedder, Progress, ProgressReport, UnmeasuredEmbedder
from leanrag_engine.core.text.shortening import one_line

from .pretrained import (
    EmbeddingWindows,
    PretrainedSource,
    Role,
    Span,
    Windows,
    check_rows,
    pool_windows,
    rough_tokens,
)

SentenceTransformer = Any
"""Types come with the extra [local], which need not be installed where types are checked."""

_KIND = "local"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")

_CONFIGS = ("*.json", "vocab.txt", "*.model", "merges.txt")
_NO_CONFIG = {
    "data_config.json", "model.safetensors.index.json", "trainer_state.json", "special_tokens_map.json",
}  # fmt: skip
_WEIGHTS = ("*.safetensors", "*.bin")
_SAMPLES, _SAMPLE = 64, 4096
"""Blocks and bytes of each in the fingerprint of a file of weights: training changes every weight."""

_NEVER_FETCHED = [
    "onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.tflite", "*.gguf", "*.ckpt",
]  # fmt: skip

_PROMPTS: dict[Role, tuple[str, ...]] = {"document": ("document", "passage", "corpus"), "query": ("query",)}
"""The names of the prompt of each role in models."""

_UNLOADABLE = (OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError, ImportError)
"""What the libraries raise for files that are no model of theirs."""

_LOADING = threading.Lock()  # Lock for loading: two threads that need the same model would load it twice


class SentenceTransformersSource(PretrainedSource):
    """One model: ``name`` is a folder, or a name such as ``sentence-transformers/all-MiniLM-L6-v2``."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def gave(self, identity: str) -> bool:
        """Return whether ``identity`` is the model's by its files; a model that is not on this machine may be any."""
        if not identity.startswith(f"{_KIND}-"):
            return False
        return await anyio.to_thread.run_sync(self._identity_at_hand) in {identity, None}

    def _embedder(self) -> Embedder:
        folder = self._at_hand() or _download(self.name)
        with _LOADING:
            return SentenceTransformersEmbedder(self.name, _identity(folder), _load(folder, self.name))

    def _identity_at_hand(self) -> str | None:
        folder = self._at_hand()
        return _identity(folder) if folder else None

    def _at_hand(self) -> Path | None:
        if find_spec("sentence_transformers") is None or find_spec("torch") is None:
            raise InvalidInput(
                f"Embedder {self.name!r} needs the package sentence-transformers, which is not installed.",
                "Install the extra [local]: pip install \"leanrag-mcp[local]\". Or set the embedder to 'minilm', which needs nothing more.",
            )
        return _folder_of(self.name) or _find_in_cache(self.name)


@dataclass(frozen=True, slots=True)
class _LoadedModel:
    """A model in memory. Its tokenizer is not thread-safe: batches take ``lock`` in turn."""

    model: SentenceTransformer
    dimension: int
    prompts: dict[Role, str | None]
    room: dict[Role, int | None]
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def batch(self) -> tuple[int, int]:
        # Most texts and tokens in one batch. On two cores, 16 was fastest for MiniLM with texts of 20 and
        # of 200 tokens alike; the bound on tokens is for models that read thousands at once, whose memory
        # it keeps small.
        return (16, 4096) if self.model.device.type == "cpu" else (128, 65_536)


class SentenceTransformersEmbedder(UnmeasuredEmbedder):
    """A pretrained model. Texts beyond its window are embedded in several windows, with the model's prompts."""

    def __init__(self, name: str, identity: str, loaded: _LoadedModel) -> None:
        self.identity = identity
        self.dimension = loaded.dimension
        self._name = name
        self._loaded = loaded

    async def embed(self, texts: Sequence[str], report: ProgressReport | None = None) -> Vectors:
        windows = await anyio.to_thread.run_sync(partial(self._embed, list(texts), "document", report))
        return pool_windows(windows, len(texts))

    async def embed_queries(self, texts: Sequence[str]) -> EmbeddedQueries:
        """Return the rows of queries, with the model's prompt for queries if it has one."""
        windows = await anyio.to_thread.run_sync(partial(self._embed, list(texts), "query", None))
        return EmbeddedQueries(pool_windows(windows, len(texts)))

    def _embed(self, texts: list[str], role: Role, report: ProgressReport | None) -> Windows:
        pieces = EmbeddingWindows.of(texts, self._tokens(texts), self._loaded.room[role])
        rows = np.zeros((len(pieces.texts), self.dimension), dtype=np.float32)
        done = 0
        for places in pieces.batches(*self._loaded.batch):
            if report is not None:
                report(Progress("embed", done, len(pieces.texts)))
            rows[places] = self._rows([pieces.texts[place] for place in places], role)
            done += len(places)
        return Windows(rows, pieces.owners)

    def _rows(self, texts: list[str], role: Role) -> Vectors:
        model, prompt = self._loaded.model, self._loaded.prompts[role]
        encode = model.encode_query if role == "query" else model.encode_document
        with self._loaded.lock:
            given = encode(texts, prompt=prompt, batch_size=len(texts), show_progress_bar=False)
        return check_rows(given, texts, self.dimension, self._name)

    def _tokens(self, texts: list[str]) -> list[list[Span]]:
        tokenizer = self._loaded.model.tokenizer
        if not getattr(tokenizer, "is_fast", False):
            return [rough_tokens(text) for text in texts]
        with self._loaded.lock:
            encoded = tokenizer(
                texts or [""],
                add_special_tokens=False,
                return_offsets_mapping=True,
                truncation=False,
                padding=False,
                verbose=False,
            )
        return [[(s, e) for s, e in spans if e > s] for spans in encoded["offset_mapping"]][: len(texts)]


# --- finding the model ---------------------------------------------------------------------


def _folder_of(name: str) -> Path | None:
    """Return the folder that ``name`` names; None if it is a name on the model hub."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"Embedder {name!r} is neither an existing folder nor the name of a model.",
            "Give 'minilm', 'e5', 'fitted', 'litellm/<model>', the name of a sentence-transformers model, or its folder.",
        )
    return None


def _silence_libraries() -> None:
    """Turn off progress bars and warnings on threads; called before the first import."""
    for variable in ("HF_HUB_DISABLE_PROGRESS_BARS", "TRANSFORMERS_NO_ADVISORY_WARNINGS"):
        os.environ.setdefault(variable, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _find_in_cache(name: str) -> Path | None:
    """Return the model's folder in the hub's cache on this machine if it is complete."""
    _silence_libraries()
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - only local models pay for it
    from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415 - as above

    try:
        folder = Path(snapshot_download(_full_name(name), local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    return folder if _weights(folder) else None


def _download(name: str) -> Path:
    """Download the model and return its folder. One short request comes first: without a network the libraries retry for over a minute."""
    import httpx  # noqa: PLC0415 - only local models pay for it
    from huggingface_hub import HfApi, snapshot_download  # noqa: PLC0415 - as above
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled  # noqa: PLC0415 - as above

    try:
        files = HfApi().model_info(_full_name(name), timeout=5.0).siblings or []
        twice = ["*.bin"] if any(each.rfilename.endswith(".safetensors") for each in files) else []
        return Path(snapshot_download(_full_name(name), ignore_patterns=_NEVER_FETCHED + twice))
    except HfHubHTTPError as problem:
        raise InvalidInput(
            f"Embedder {name!r} could not be fetched: the model hub says {problem.response.status_code}.",
            "Check the name (as in 'sentence-transformers/all-MiniLM-L6-v2'), or give the folder of a model.",
        ) from problem
    except OfflineModeIsEnabled as problem:
        raise _unreachable(name, "HF_HUB_OFFLINE is set") from problem
    except (httpx.HTTPError, OSError) as problem:
        raise _unreachable(name, str(problem)) from problem


def _full_name(name: str) -> str:
    """Return the name with its organisation, by default sentence-transformers."""
    return name if "/" in name else f"sentence-transformers/{name}"


def _unreachable(name: str, why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"Embedder {name!r} is not on this machine, and the model hub cannot be reached ({why}).",
        "Connect to the network once, so that it can be fetched, or set the embedder to the folder of a model or to 'minilm', which comes with this package.",
    )


# --- identity ------------------------------------------------------------------------------


def _module_folders(folder: Path) -> list[Path]:
    """Return the folders of the model's modules: its own, and those such as ``1_Pooling``."""
    return [folder, *sorted(folder.glob("[0-9]*_*"))]


def _weights(folder: Path) -> list[Path]:
    """Return the files of weights that are loaded: those of the preferred format in each folder."""
    forms = [[sorted(part.glob(pattern)) for pattern in _WEIGHTS] for part in _module_folders(folder)]
    return [path for safe, pickled in forms for path in safe or pickled]


@lru_cache(maxsize=4)
def _identity(folder: Path) -> str:
    """Return a digest of the files that decide the vectors; a copy in another folder has the same one."""
    digest = blake2b(digest_size=8)
    configs = {
        path for part in _module_folders(folder) for pattern in _CONFIGS for path in part.glob(pattern)
    }
    for path in sorted(path for path in configs if path.name not in _NO_CONFIG):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    for path in _weights(folder):
        for block in _sample_blocks(path):
            digest.update(block)
    return f"{_KIND}-{digest.hexdigest()}"


def _sample_blocks(path: Path) -> Iterator[bytes]:
    """Yield the size of a file and blocks evenly spread over it."""
    size = path.stat().st_size
    yield str(size).encode()
    with path.open("rb") as file:
        for number in range(_SAMPLES):
            file.seek(max(size - _SAMPLE, 0) * number // (_SAMPLES - 1))
            yield file.read(_SAMPLE)


# --- loading -------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _load(folder: Path, name: str) -> _LoadedModel:
    """Load the model; one is kept in memory, shared by all engines of the process."""
    _silence_libraries()
    logs = import_module("transformers.utils.logging")
    logs.disable_progress_bar()
    logs.set_verbosity_error()
    damaged = import_module("safetensors").SafetensorError
    try:
        model = import_module("sentence_transformers").SentenceTransformer(str(folder), local_files_only=True)
        dimension = len(model.encode(["dimension"], show_progress_bar=False)[0])
        # Some releases of the library add an empty "document" to a model's own "passage".
        known = {name: text for name, text in model.prompts.items() if text}
        prompts = {
            role: next((known[each] for each in names if each in known), None)
            for role, names in _PROMPTS.items()
        }
        room = {role: _room(model, prompt or "") for role, prompt in prompts.items()}
    except (*_UNLOADABLE, damaged) as problem:
        detail = one_line(str(problem))
        raise InvalidInput(
            f"Embedder {name!r} cannot be loaded as a sentence-transformers model ({type(problem).__name__}: {detail[:200]}).",
            "Give the folder or the name of a model that holds its configuration, tokenizer and weights, or set the embedder to 'minilm'.",
        ) from problem
    return _LoadedModel(model, dimension, prompts, room)


def _room(model: SentenceTransformer, prompt: str) -> int | None:
    """Return the tokens of a text that the model reads at once; None if it has no limit."""
    no_limit = 1_000_000  # tokenizers without a limit state an absurd one
    limit = model.max_seq_length or getattr(model.tokenizer, "model_max_length", None)
    if not isinstance(limit, int) or limit > no_limit:
        return None
    used = len(model.tokenizer(prompt)["input_ids"])  # with the special tokens
    # 4 tokens stay free: a window cut out of a text may have a few more than its part of the text.
    return max(limit - used - 4, 16)
