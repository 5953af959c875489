"""The real server builder with what the official conformance suite expects of a server under test: its ``test_…`` tools,
resources and prompts. Nothing of this is in the product.

Run: ``python tests/programs/conformance/fixtures.py DATA_DIR`` serves it on loopback and says where.
"""

from __future__ import annotations

import json
import struct
import sys
import warnings
import zlib
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Message, UserMessage
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    CallToolResult,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)

from leanrag_engine.core.config import load_settings
from leanrag_mcp.app import LeanRAGServer, create_server
from leanrag_mcp.http.serving import serve_at
from leanrag_mcp.http.settings import HttpSettings, address_of
from leanrag_mcp.http.tokens import Access

PAUSE_S = 0.05
"""The suite asks for a pause between notifications, so that a client sees them one by one."""


def png() -> bytes:
    """One red pixel."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", pixel) + part(b"IEND", b"")


def wav() -> bytes:
    """One silent sample."""
    form = struct.pack("<HHIIHH", 1, 1, 8000, 8000, 1, 8)
    body = (
        b"WAVE" + b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", 2) + b"\x80\x80"
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


def image() -> ImageContent:
    return ImageContent(type="image", data=b64encode(png()).decode(), mime_type="image/png")


def embedded(uri: str, words: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(
        type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    )


# --- tools that answer ---------------------------------------------------------------------


def test_simple_text() -> CallToolResult:
    """Answers with text."""
    return CallToolResult(content=[text("This is a simple text response for testing.")])


def test_image_content() -> CallToolResult:
    """Answers with an image."""
    return CallToolResult(content=[image()])


def test_audio_content() -> CallToolResult:
    """Answers with a sound."""
    sound = AudioContent(type="audio", data=b64encode(wav()).decode(), mime_type="audio/wav")
    return CallToolResult(content=[sound])


def test_embedded_resource() -> CallToolResult:
    """Answers with a resource."""
    return CallToolResult(
        content=[embedded("test://embedded-resource", "This is an embedded resource content.")]
    )


def test_multiple_content_types() -> CallToolResult:
    """Answers with text, an image and a resource."""
    data = json.dumps({"test": "data", "value": 123})
    mixed = embedded("test://mixed-content-resource", data, "application/json")
    return CallToolResult(content=[text("Multiple content types test:"), image(), mixed])


def test_error_handling() -> CallToolResult:
    """Fails on purpose."""
    raise ToolError("This tool intentionally returns an error for testing")


# --- tools that notify ---------------------------------------------------------------------


async def test_tool_with_logging(ctx: Context) -> CallToolResult:
    """Logs three lines."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(line)
        await anyio.sleep(PAUSE_S)
    return CallToolResult(content=[text("Logged three lines.")])


async def test_logging_tool(ctx: Context) -> CallToolResult:
    """Logs one line, for those who asked for logs."""
    await ctx.info("One line")
    return CallToolResult(content=[text("Logged one line.")])


async def test_tool_with_progress(ctx: Context) -> CallToolResult:
    """Reports progress three times."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await anyio.sleep(PAUSE_S)
    return CallToolResult(content=[text("Went from 0 to 100.")])


async def test_trigger_tool_change(ctx: Context) -> CallToolResult:
    """Says that the list of tools changed."""
    await ctx.notify_tools_changed()
    return CallToolResult(content=[text("Said so.")])


async def test_trigger_prompt_change(ctx: Context) -> CallToolResult:
    """Says that the list of prompts changed."""
    await ctx.notify_prompts_changed()
    return CallToolResult(content=[text("Said so.")])


# --- tools that ask the client, up to 2025-11-25 -------------------------------------------


async def test_sampling(prompt: str, ctx: Context) -> CallToolResult:
    """Asks the client's model."""
    asked = SamplingMessage(role="user", content=text(prompt))
    reply = await ctx.session.create_message([asked], max_tokens=100, related_request_id=ctx.request_id)
    words = reply.content.text if isinstance(reply.content, TextContent) else ""
    return CallToolResult(content=[text(f"LLM response: {words}")])


async def test_elicitation(message: str, ctx: Context) -> CallToolResult:
    """Asks the client's user."""
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return await elicited(ctx, message, {"type": "object", "properties": fields, "required": list(fields)})


async def test_elicitation_sep1034_defaults(ctx: Context) -> CallToolResult:
    """Asks the client's user, with defaults of every kind."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await elicited(ctx, "Check the defaults", {"type": "object", "properties": fields})


async def test_elicitation_sep1330_enums(ctx: Context) -> CallToolResult:
    """Asks the client's user to choose, in every form of an enumeration."""
    plain = {"type": "string", "enum": ["option1", "option2", "option3"]}
    titled = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
    old = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    fields = {
        "untitledSingle": plain,
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", **old},
        "untitledMulti": {"type": "array", "items": plain},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await elicited(ctx, "Choose", {"type": "object", "properties": fields})


async def elicited(ctx: Context, message: str, schema: dict[str, Any]) -> CallToolResult:
    reply = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return CallToolResult(
        content=[text(f"Elicitation completed: action={reply.action}, content={json.dumps(reply.content)}")]
    )


# --- tools that ask the client, since 2026-07-28 -------------------------------------------


def asks_user(message: str, field: str, kind: str = "string") -> ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def asks_model(question: str, max_tokens: int = 100) -> CreateMessageRequest:
    asked = SamplingMessage(role="user", content=text(question))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[asked], max_tokens=max_tokens))


def required(state: str | None = None, **requests: InputRequest) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


def answer_of(ctx: Context, name: str, kind: type[Any]) -> Any:
    """The client's answer, or ``None`` if it gave none or one of another kind."""
    reply = (ctx.input_responses or {}).get(name)
    return reply if isinstance(reply, kind) else None


def field_of(ctx: Context, name: str, field: str) -> Any:
    """A field of the form that the client's user filled in."""
    reply = answer_of(ctx, name, ElicitResult)
    return (reply.content or {}).get(field) if reply and reply.action == "accept" else None


def test_input_required_result_elicitation(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Greets the client's user, whose name it asks for."""
    name = field_of(ctx, "user_name", "name")
    if name is None:
        return required(user_name=asks_user("What is your name?", "name"))
    return CallToolResult(content=[text(f"Hello, {name}!")])


def test_input_required_result_sampling(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Passes on what the client's model answers."""
    reply = answer_of(ctx, "capital_question", CreateMessageResult)
    if reply is None:
        return required(capital_question=asks_model("What is the capital of France?"))
    return CallToolResult(content=[text(f"The model says: {reply.content.text}")])


def test_input_required_result_list_roots(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Lists the client's roots."""
    reply = answer_of(ctx, "client_roots", ListRootsResult)
    if reply is None:
        return required(client_roots=ListRootsRequest())
    return CallToolResult(content=[text(f"Roots: {', '.join(str(root.uri) for root in reply.roots)}")])


def test_input_required_result_request_state(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Asks for a confirmation and checks that its state came back."""
    if ctx.request_state != "asked" or field_of(ctx, "confirm", "ok") is None:
        return required(state="asked", confirm=asks_user("Please confirm", "ok", "boolean"))
    return CallToolResult(content=[text("Confirmed: state-ok")])


def test_input_required_result_tampered_state(ctx: Context) -> CallToolResult | InputRequiredResult:
    """As the one before; the SDK seals the state and refuses one that was changed."""
    return test_input_required_result_request_state(ctx)


def test_input_required_result_multiple_inputs(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Asks for three things at once."""
    name = field_of(ctx, "user_name", "name")
    greeting = answer_of(ctx, "greeting", CreateMessageResult)
    roots = answer_of(ctx, "client_roots", ListRootsResult)
    if name is None or greeting is None or roots is None:
        return required(
            state="asked",
            user_name=asks_user("What is your name?", "name"),
            greeting=asks_model("Generate a greeting", 50),
            client_roots=ListRootsRequest(),
        )
    return CallToolResult(content=[text(f"{greeting.content.text} {name}, of {len(roots.roots)} roots")])


def test_input_required_result_multi_round(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Asks twice, and remembers the first answer in its state."""
    name = field_of(ctx, "step1", "name")
    if name is not None:
        return required(
            state=f"name={name}", step2=asks_user("Step 2: What is your favorite color?", "color")
        )
    color = field_of(ctx, "step2", "color")
    if color is not None and ctx.request_state:
        return CallToolResult(content=[text(f"{ctx.request_state}, color={color}")])
    return required(state="round 1", step1=asks_user("Step 1: What is your name?", "name"))


def test_input_required_result_capabilities(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Asks for what the client can give, and for nothing else."""
    can = ctx.client_capabilities
    requests: dict[str, InputRequest] = {}
    if can and can.elicitation is not None:
        requests["user_name"] = asks_user("What is your name?", "name")
    if can and can.sampling is not None:
        requests["greeting"] = asks_model("Generate a greeting")
    return required(**requests) if requests else CallToolResult(content=[text("You can give nothing.")])


def test_streaming_elicitation(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Asks within its result, never by a request of its own."""
    return test_input_required_result_elicitation(ctx)


def test_missing_capability(ctx: Context) -> CallToolResult:
    """Needs sampling of the client."""
    can = ctx.client_capabilities
    if can is None or can.sampling is None:
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="This tool needs sampling",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return CallToolResult(content=[text("You can sample.")])


TOOLS: tuple[Callable[..., Any], ...] = (
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    test_tool_with_logging,
    test_logging_tool,
    test_tool_with_progress,
    test_trigger_tool_change,
    test_trigger_prompt_change,
    test_sampling,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_input_required_result_elicitation,
    test_input_required_result_sampling,
    test_input_required_result_list_roots,
    test_input_required_result_request_state,
    test_input_required_result_tampered_state,
    test_input_required_result_multiple_inputs,
    test_input_required_result_multi_round,
    test_input_required_result_capabilities,
    test_streaming_elicitation,
    test_missing_capability,
)


# --- resources -----------------------------------------------------------------------------


def add_resources(server: LeanRAGServer) -> None:
    @server.resource("test://static-text", mime_type="text/plain", description="A text.")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png", description="An image.")
    def static_binary() -> bytes:
        return png()

    @server.resource("test://watched-resource", mime_type="text/plain", description="One to subscribe to.")
    def watched_resource() -> str:
        return "Watched."

    @server.resource("test://template/{id}/data", mime_type="application/json", description="Data by id.")
    def template(id: str) -> str:
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


# --- prompts -------------------------------------------------------------------------------


def add_prompts(server: LeanRAGServer) -> None:
    @server.prompt(description="A prompt without arguments.")
    def test_simple_prompt() -> str:
        return "This is a simple prompt for testing."

    @server.prompt(description="A prompt with two arguments.")
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt(description="A prompt with a resource in it.")
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # noqa: N803 - the suite's name
        return [
            UserMessage(embedded(resourceUri, "Embedded resource content for testing.")),
            UserMessage("Please process the embedded resource above."),
        ]

    @server.prompt(description="A prompt with an image in it.")
    def test_prompt_with_image() -> list[Message]:
        return [UserMessage(image()), UserMessage("Please analyze the image above.")]

    @server.prompt(description="A prompt that asks the client's user first.")
    def test_input_required_result_prompt(ctx: Context) -> str | InputRequiredResult:
        context = field_of(ctx, "user_context", "context")
        if context is None:
            return required(user_context=asks_user("What context should the prompt use?", "context"))
        return f"Use this context: {context}"


# --- what the server itself does not offer --------------------------------------------------


def add_methods(server: LeanRAGServer) -> None:
    """Logging levels and subscriptions of the handshake era; completions if the server has none of its own."""
    low = server._lowlevel_server

    async def acknowledge(_: Any, __: Any) -> EmptyResult:
        return EmptyResult()

    low.add_request_handler("logging/setLevel", SetLevelRequestParams, acknowledge)
    low.add_request_handler("resources/subscribe", SubscribeRequestParams, acknowledge)
    low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, acknowledge)
    if low.get_request_handler("completion/complete") is None:

        @server.completion()
        async def complete(_: Any, argument: Any, __: Any) -> Completion:
            return Completion(values=[word for word in ("paris", "park") if word.startswith(argument.value)])


def server_with_fixtures(data_dir: str) -> LeanRAGServer:
    server = create_server(load_settings(data_dir=data_dir))
    for tool in TOOLS:
        server.add_tool(tool)
    add_resources(server)
    add_prompts(server)
    add_methods(server)
    return server


if __name__ == "__main__":
    # Sampling, roots and logging are deprecated, and the suite asks for them all the same.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    serve_at(address_of("127.0.0.1:0"), server_with_fixtures(sys.argv[1]), HttpSettings(), Access())
