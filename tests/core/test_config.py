"""Settings given in code and in the environment: what a wrong name is answered with."""

import pytest

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import InvalidInput
from leanrag_mcp.http.settings import load_http_settings


def test_a_wrong_name_in_code_is_not_blamed_on_the_settings_file() -> None:
    with pytest.raises(InvalidInput, match="no setting 'embeder'") as refused:
        load_settings(embeder="fitted")
    assert refused.value.next_step == "Did you mean embedder, embedder_window?"


def test_a_variable_that_sets_nothing_is_named_with_the_one_that_is_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LEANRAG_READONLY", "true")
    with pytest.raises(InvalidInput, match="no setting 'readonly'") as refused:
        load_settings()
    assert refused.value.next_step == "LEANRAG_READONLY is set: unset it. Did you mean read_only?"
    monkeypatch.delenv("LEANRAG_READONLY")
    for name in (
        "SERVICE_HOST",
        "PORT",
        "MCP_SERVICE_PORT_HTTP",
        "MCP_PORT_8000_TCP",
    ):  # of services in Kubernetes
        monkeypatch.setenv(f"LEANRAG_{name}", "tcp://10.0.0.1:8000")
    load_settings()
    monkeypatch.setenv("LEANRAG_RETRIEVAL_MODE", "lca")
    with pytest.raises(InvalidInput, match="no setting 'retrieval_mode'") as refused:
        load_settings()
    assert "Did you mean" not in str(refused.value)
    monkeypatch.delenv("LEANRAG_RETRIEVAL_MODE")
    monkeypatch.setenv("LEANRAG_PORT", "9000")
    with pytest.raises(InvalidInput, match="no setting 'port'"):
        load_settings()


def test_a_variable_of_the_http_server_that_sets_nothing_keeps_it_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LEANRAG_HTTP_TOKENFILE", "token")
    load_settings()
    with pytest.raises(InvalidInput, match="no setting 'http_tokenfile'"):
        load_http_settings()
