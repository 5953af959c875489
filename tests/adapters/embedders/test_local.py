"""A real model, offline: its own vectors, windows for what is long, its prompts, and clear words for what fails."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from subprocess import run
from typing import Any

import anyio
import numpy as np
import pytest

from leanrag_engine.adapters.embedders.local import SentenceTransformersSource
from leanrag_engine.core.errors import Cancelled, InvalidInput, ModelUnavailable
from leanrag_engine.core.model import Vectors
from leanrag_engine.core.ports import Embedder, Progress

TEXTS = ["An oak stands in the garden.", "", "Boats go down the river, slowly.", "今日は天気がいい。", "oak"]
LONG = "The harbour\n" + " ".join(
    f"Ship number {number} left the harbour on a grey morning." for number in range(60)
)


@pytest.fixture(scope="session")
def tiny(local_extra: None, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001 - what it needs
    """A BERT of 16 dimensions and a window of 24 tokens, made here, with prompts."""
    transformers, modules = import_module("transformers"), import_module("sentence_transformers.models")
    folder = tmp_path_factory.mktemp("tiny")
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        ":",
        "query",
        "passage",
        "oak",
        "ash",
        "elm",
        "zorkmid",
    ]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    import_module("torch").manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    transformers.BertModel(config).save_pretrained(folder / "bert")
    bert = modules.Transformer(str(folder / "bert"), max_seq_length=24)
    prompts = {"query": "query: ", "passage": "passage: "}
    model = import_module("sentence_transformers").SentenceTransformer(
        modules=[bert, modules.Pooling(16)], prompts=prompts, device="cpu"
    )
    model.save(str(folder / "model"))
    return folder / "model"


def given(name: str | Path) -> Embedder:
    return anyio.run(SentenceTransformersSource(str(name)).fit, [])[0]


def embedded(embedder: Embedder, texts: list[str]) -> Vectors:
    return anyio.run(embedder.embed, texts)


def own_model(folder: str | Path) -> Any:
    return import_module("sentence_transformers").SentenceTransformer(str(folder), device="cpu")


# --- vectors -------------------------------------------------------------------------------


def test_short_texts_get_the_models_own_vectors_in_their_order(minilm: str) -> None:
    rows = embedded(given(minilm), TEXTS)
    own = own_model(minilm).encode(TEXTS, normalize_embeddings=True)
    worded = [bool(text) for text in TEXTS]
    assert (rows.shape, rows.dtype) == ((len(TEXTS), 384), np.float32)
    np.testing.assert_allclose(rows[worded], own[worded], atol=1e-5)
    assert not rows[1].any(), "a blank text is near nothing"


def test_the_same_texts_get_the_same_bits(minilm: str) -> None:
    texts = [f"Ship number {number} left the harbour." for number in range(40)]
    assert embedded(given(minilm), texts).tobytes() == embedded(given(minilm), texts).tobytes()


def test_no_window_of_a_long_text_is_cut_off(minilm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder, seen = given(minilm), []
    rows = embedder._rows
    monkeypatch.setattr(embedder, "_rows", lambda texts, role: seen.extend(texts) or rows(texts, role))
    texts = [
        LONG,
        "知识图谱的层次结构。" * 90,
        "x" * 3000,
        "supercalifragilistic" * 50,
        "Unbelievable! " * 200,
    ]
    windows = embedder._embed(texts, "document", None)
    tokenizer = own_model(minilm).tokenizer
    assert max(len(tokenizer(text, truncation=False, verbose=False)["input_ids"]) for text in seen) <= 256
    assert sorted(set(windows.owners)) == list(range(len(texts)))
    assert windows.owners.count(0) > 2
    assert {"Ship", "59"} <= set(" ".join(seen).replace(".", " ").split())


def test_a_fact_at_the_end_of_a_long_text_is_near_in_one_of_its_windows(minilm: str) -> None:
    embedder = given(minilm)
    text = f"{LONG} The lighthouse keeper kept a tame raven called Nevermore."
    windows = embedder._embed([text], "document", None)
    (query,) = anyio.run(embedder.embed_queries, ["What was the lighthouse keeper's raven called?"]).rows
    scores = windows.vectors @ query
    first = own_model(minilm).encode([text], normalize_embeddings=True) @ query
    assert scores.argmax() == len(scores) - 1
    assert scores.max() > first[0] + 0.15, "the model alone reads the first 256 tokens"
    (mean,) = embedded(embedder, [text])
    assert mean @ query > first[0], "the one vector of a long text knows of all its windows"


def test_queries_and_passages_get_the_models_prompts(tiny: Path) -> None:
    embedder, own = given(tiny), own_model(tiny)
    passages, queries = embedded(embedder, ["oak ash"]), anyio.run(embedder.embed_queries, ["oak ash"]).rows
    np.testing.assert_allclose(
        passages, own.encode(["passage: oak ash"], normalize_embeddings=True), atol=1e-6
    )
    np.testing.assert_allclose(queries, own.encode(["query: oak ash"], normalize_embeddings=True), atol=1e-6)
    assert not np.allclose(passages, queries)


def test_a_query_is_answered_while_documents_are_embedded(minilm: str) -> None:
    embedder = given(minilm)
    alone = anyio.run(embedder.embed_queries, ["Where is the oak?"]).rows
    found: list[Vectors] = []

    async def ask() -> None:
        found.append((await embedder.embed_queries(["Where is the oak?"])).rows)

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(embedder.embed, [f"{LONG} {number}" for number in range(3)])
            for _ in range(5):
                group.start_soon(ask)

    anyio.run(both)
    assert len(found) == 5
    for rows in found:
        np.testing.assert_allclose(rows, alone, atol=1e-6)


def test_progress_is_told_and_the_work_stops_between_batches_when_it_is_asked_to(minilm: str) -> None:
    told: list[Progress] = []

    def report(step: Progress) -> None:
        told.append(step)
        if step.done >= 32:
            raise Cancelled("Asked to stop.")

    with pytest.raises(Cancelled):
        anyio.run(given(minilm).embed, [f"oak {number}" for number in range(1000)], report)
    assert [(step.stage, step.done, step.total) for step in told] == [
        ("embed", done, 1000) for done in (0, 16, 32)
    ]


# --- what fails ----------------------------------------------------------------------------


@pytest.fixture
def copied(tiny: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny, tmp_path / "copy")


def change_weights(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    safetensors = import_module("safetensors.torch")
    (weights,) = folder.rglob("model.safetensors")
    tensors = safetensors.load_file(weights)
    change(tensors)
    safetensors.save_file(tensors, weights, metadata={"format": "pt"})


def test_a_model_that_gives_nan_is_refused_with_the_text_that_caused_it(copied: Path) -> None:
    def spoil(tensors: dict[str, Any]) -> None:
        (name,) = (name for name in tensors if name.endswith("word_embeddings.weight"))
        tensors[name][11] = float("nan")

    change_weights(copied, spoil)
    embedder = given(copied)
    assert embedded(embedder, ["oak", "ash"]).any()
    with pytest.raises(InvalidInput, match="not finite for the text 'ash zorkmid'") as caught:
        embedded(embedder, ["oak", "ash zorkmid", "elm"])
    assert str(copied) in str(caught.value)


def test_a_folder_that_holds_no_model_is_told(local_extra: None, tmp_path: Path) -> None:  # noqa: ARG001
    with pytest.raises(InvalidInput, match="cannot be loaded") as caught:
        given(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "minilm" in caught.value.next_step


@pytest.mark.parametrize("kept", [0, 100, 2000])
def test_damaged_weights_are_told(copied: Path, kept: int) -> None:
    (weights,) = copied.rglob("model.safetensors")
    weights.write_bytes(weights.read_bytes()[:kept])
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        given(copied)


@pytest.mark.parametrize(
    "name", ["no/such/folder", "/nowhere/model", "~/nowhere", "a b", "../no-such-folder"]
)
def test_what_is_no_folder_and_no_name_is_told(local_extra: None, name: str) -> None:  # noqa: ARG001
    with pytest.raises(InvalidInput, match="neither an existing folder nor the name of a model"):
        given(name)


@pytest.mark.parametrize("missing", ["sentence_transformers", "torch"])
def test_without_the_extra_the_error_says_how_to_install_it(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = "leanrag_engine.adapters.embedders.local.find_spec"
    monkeypatch.setattr(where, lambda package: None if package == missing else object())
    with pytest.raises(InvalidInput, match="'some/model' needs the package sentence-transformers") as caught:
        given("some/model")
    assert '[local]: pip install "leanrag-mcp[local]"' in caught.value.next_step


# --- identity ------------------------------------------------------------------------------


def test_a_copy_elsewhere_is_the_same_embedder(tiny: Path, copied: Path) -> None:
    (copied / "README.md").write_text("Another readme.")
    assert given(copied).identity == given(tiny).identity


def test_other_weights_prompts_or_settings_are_another_embedder(tiny: Path, tmp_path: Path) -> None:
    def train(tensors: dict[str, Any]) -> None:
        for tensor in tensors.values():
            tensor.add_(0.001)

    identities = {given(tiny).identity}
    trained, prompted, shorter = (shutil.copytree(tiny, tmp_path / name) for name in ("t", "p", "s"))
    change_weights(trained, train)
    for folder, file, key, value in (
        (prompted, "config_sentence_transformers.json", "prompts", {"query": "", "passage": "text: "}),
        (shorter, "config.json", "hidden_act", "relu"),
    ):
        path = folder / file
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    identities |= {given(folder).identity for folder in (trained, prompted, shorter)}
    assert len(identities) == 4


def test_whose_an_identity_is_shows_without_loading_the_model(minilm: str) -> None:
    code = (
        "import anyio, sys\n"
        "from leanrag_engine.adapters.embedders.local import SentenceTransformersSource\n"
        "source = SentenceTransformersSource(sys.argv[1])\n"
        "print([anyio.run(source.gave, identity) for identity in sys.argv[2:]])\n"
        "print(sorted({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-P", "-c", code, minilm, given(minilm).identity, "local-0123", "fitted-0123"]
    done = run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[True, False, False]", "[]"]


# --- the model hub -------------------------------------------------------------------------


class Hub:
    """A model hub on loopback that holds one model, or none. ``asked`` keeps the paths it was asked for."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def reply(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        if self.folder is None or "some/model" not in path:
            return 404, b"{}"
        if path.startswith("/api/models/"):
            files = [
                file.relative_to(self.folder).as_posix() for file in self.folder.rglob("*") if file.is_file()
            ]
            model = {"id": "some/model", "sha": "f" * 40, "siblings": [{"rfilename": name} for name in files]}
            if "/tree/" in path:
                rows = [{"type": "file", "path": name, "size": 1, "oid": "0" * 40} for name in files]
                return 200, json.dumps(rows).encode()
            return 200, json.dumps(model).encode()
        return 200, (self.folder / path.partition(f"/resolve/{'f' * 40}/")[2]).read_bytes()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, data = hub.reply(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Content-Type", "application/json")
                self.send_header("X-Repo-Commit", "f" * 40)
                self.send_header("ETag", f'"{hash(data):x}"')
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(data)

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:
                """Tests read what was asked, not logs."""

        return Handler


@pytest.fixture
def hub(
    local_extra: None,  # noqa: ARG001 - what it needs
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[Path | None], Hub]]:
    """Opens a hub and makes it the one that is asked, with a cache of its own."""
    constants, opened = import_module("huggingface_hub.constants"), []

    def serve(folder: Path | None) -> Hub:
        opened.append(Hub(folder))
        files = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", opened[-1].url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", opened[-1].url + files)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        return opened[-1]

    yield serve
    for each in opened:
        each.close()


def test_a_name_is_fetched_once_and_used_offline_from_then_on(hub: Callable[..., Hub], tiny: Path) -> None:
    server = hub(tiny)
    embedder = given("some/model")
    assert embedder.identity == given(tiny).identity
    fetched = len(server.asked)
    assert fetched > 2
    server.folder = None
    again = given("some/model")
    assert len(server.asked) == fetched
    np.testing.assert_array_equal(embedded(again, ["oak"]), embedded(given(tiny), ["oak"]))


def test_a_name_that_the_hub_does_not_know_is_told_after_one_question(hub: Callable[..., Hub]) -> None:
    server = hub(None)
    with pytest.raises(InvalidInput, match="'some/model' could not be fetched: the model hub says 404"):
        given("some/model")
    assert len(server.asked) == 1


def test_without_a_network_the_error_comes_after_one_try(
    hub: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub(None).close()
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    with pytest.raises(
        ModelUnavailable, match="'some/model' is not on this machine, and the model hub"
    ) as caught:
        given("some/model")
    assert "folder of a model" in caught.value.next_step
    assert slept == [], "nothing waits to try again"


def test_offline_mode_is_respected(hub: Callable[..., Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    server = hub(None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelUnavailable, match="HF_HUB_OFFLINE is set"):
        given("some/model")
    assert server.asked == []
