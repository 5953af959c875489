"""The tasks extension: for clients that declare it, a call whose job goes on is a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Request, RequestParams, Result
from pydantic import ConfigDict, Field

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import IngestRequest, Job, JobStatus
from leanrag_mcp.app import create_server
from leanrag_mcp.protocol.tasks import IDENTIFIER, task_of

pytestmark = pytest.mark.anyio

SENTENCE = "Alan Stevenson designed the lighthouse of Skerryvore number {}. The Bell Rock lies off Arbroath. "
LONG = {"text": "".join(SENTENCE.format(number) for number in range(1000)), "title": "Long", "id": "long"}


class Created(Result):
    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")
    status: str


class Held(Result):
    model_config = ConfigDict(extra="allow")
    result_type: str = Field(alias="resultType")


class TaskParams(RequestParams):
    task_id: str = Field(alias="taskId")


class TaskRequest(Request[TaskParams, str]):
    method: str
    params: TaskParams


class KnowsTasks(ClientExtension):
    """Keeps the tasks that calls were answered with, and gives an empty error in their place."""

    identifier = IDENTIFIER

    def __init__(self) -> None:
        self.created: list[Created] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Created, resolve=self._keep)]

    async def _keep(self, created: Created, context: ClaimContext) -> CallToolResult:
        del context
        self.created.append(created)
        # A result without content passes as an error alone.
        return CallToolResult(content=[], is_error=True)


async def ask(client: Client, method: str, task_id: str) -> Mapping[str, Any]:
    request = TaskRequest(method=method, params=TaskParams(taskId=task_id))
    held = await client.session.send_request(request, Held)
    return held.model_dump(by_alias=True)


async def wait_for_task(client: Client, task_id: str) -> Mapping[str, Any]:
    with anyio.fail_after(120):
        while (task := await ask(client, "tasks/get", task_id))["status"] == "working":
            await anyio.sleep(0.05)
    return task


async def test_a_client_that_knows_tasks_gets_one_and_its_result_when_the_job_is_done(tmp_path: Path) -> None:
    knows = KnowsTasks()
    async with Client(create_server(load_settings(data_dir=tmp_path)), extensions=[knows]) as client:
        await client.call_tool("ingest_documents", {"documents": [LONG], "wait_seconds": 0})
        (created,) = knows.created
        assert created.status == "working"
        task = await wait_for_task(client, created.task_id)
        assert task["resultType"] == "complete"
        assert task["status"] == "completed"
        assert task["result"]["structuredContent"]["documents"][0]["status"] == "added"
        job = await client.call_tool("get_job", {"job_id": created.task_id})
        assert isinstance(job, CallToolResult)
        assert (job.structured_content or {})["status"] == "done"


async def test_a_task_can_be_cancelled_and_says_so(tmp_path: Path) -> None:
    knows = KnowsTasks()
    async with Client(create_server(load_settings(data_dir=tmp_path)), extensions=[knows]) as client:
        await client.call_tool("ingest_documents", {"documents": [LONG], "wait_seconds": 0})
        acknowledged = await ask(client, "tasks/cancel", knows.created[0].task_id)
        assert acknowledged["resultType"] == "complete"
        assert "taskId" not in acknowledged
        assert (await wait_for_task(client, knows.created[0].task_id))["status"] == "cancelled"


async def test_work_that_is_done_at_once_is_no_task(tmp_path: Path) -> None:
    knows = KnowsTasks()
    async with Client(create_server(load_settings(data_dir=tmp_path)), extensions=[knows]) as client:
        note = {"text": "A short note on Skerryvore.", "title": "Note"}
        result = await client.call_tool("ingest_documents", {"documents": [note], "wait_seconds": 40})
        assert isinstance(result, CallToolResult)
        assert (result.structured_content or {})["status"] == "done"
        assert not knows.created


async def test_an_unknown_task_is_an_error_that_names_it(tmp_path: Path) -> None:
    async with Client(create_server(load_settings(data_dir=tmp_path)), extensions=[KnowsTasks()]) as client:
        with pytest.raises(MCPError, match="job-none") as refused:
            await ask(client, "tasks/get", "job-none")
        assert refused.value.code == -32602


async def test_a_client_that_does_not_declare_tasks_gets_the_job_and_no_task_method(tmp_path: Path) -> None:
    async with Client(create_server(load_settings(data_dir=tmp_path))) as client:
        result = await client.call_tool("ingest_documents", {"documents": [LONG], "wait_seconds": 0})
        assert isinstance(result, CallToolResult)
        job_id = (result.structured_content or {})["job_id"]
        assert job_id
        with pytest.raises(MCPError) as refused:
            await ask(client, "tasks/get", job_id)
        assert refused.value.code == -32021


def test_what_is_done_is_told_with_its_unit() -> None:
    now = datetime.now(UTC)
    job = Job(
        id="j1", kind="ingest", collection="default", status=JobStatus.RUNNING, owner="", created_at=now, updated_at=now,
        stage="ingest", done=1_200, total=205_000, request=IngestRequest(()),
    )  # fmt: skip
    assert task_of(job)["statusMessage"] == "ingest 1.2 of 205.0 MB"
