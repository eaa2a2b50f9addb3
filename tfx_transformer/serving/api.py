"""A small API for people: /models, /translate, /classify, /caption, /draw and /generate.

Requests and answers are in `schemas.py`. Images may be base64 in JSON, or the body of a request
whose content type is image/*, with the other fields in the query.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from tfx_transformer.serving import responses, schemas
from tfx_transformer.serving.errors import InvalidRequest, NotFound, ServingError, Unavailable
from tfx_transformer.serving.requests import (
    ActiveRequests,
    deadline_of,
    offload,
    parse_json,
    read_body,
)
from tfx_transformer.serving.rest import count_values, encode, json_response

PREDICT: dict[str, tuple[Any, Any, Callable]] = {  # path: request, answer, what shows the outputs
    "/translate": (
        schemas.TranslateRequest,
        schemas.TranslateAnswer,
        responses.show_translations,
    ),
    "/classify": (schemas.ClassifyRequest, schemas.ClassifyAnswer, responses.show_predictions),
    "/caption": (schemas.CaptionRequest, schemas.CaptionAnswer, responses.show_captions),
    "/draw": (schemas.DrawRequest, schemas.DrawAnswer, responses.show_drawings),
}
GENERATE = (schemas.GenerateRequest, schemas.GenerateAnswer)
READABLE = "a JPEG, PNG, GIF, BMP or WebP file"
IMAGES = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"RIFF")  # how such files start
KINDS = {
    "/translate": "translator",
    "/caption": "captioner",
    "/draw": "text_to_image",
    "/generate": "generator",
}


def create_router(repository: Any, active: ActiveRequests) -> APIRouter:
    """Routes for all models of a `Repository`."""
    router = APIRouter()

    @router.get("/models", response_model=schemas.ModelsAnswer)
    async def models() -> Response:
        """The served models."""
        return json_response({"models": [show_model(repository, x) for x in repository.names()]})

    def add(path: str, schema: Any, answer: Any, show: Callable) -> None:
        async def handle(request: Request) -> Response:
            with active.request() as take:
                deadline = deadline_of(request, active.options)
                asked, image = await read(request, schema, active.max_body, take, deadline)
                model = choose(repository, asked.model, kind_for(path, asked))
                request.state.model = model.name
                responses.check_count(model, asked)
                signature = responses.find_signature(model, asked)
                items = [image] if image is not None else read_items(asked)
                inputs = responses.make_inputs(model, signature, items, asked)
                future = model.submit(inputs, signature, deadline)
                outputs = await active.wait(future, deadline, request.receive)
                if image is not None and not outputs.get("is_readable", [True])[0]:
                    raise InvalidRequest(f"the body must be {READABLE}; it cannot be read")
                size = count_values(outputs)
                return json_response(about(model) | await offload(show, outputs, asked, size=size))

        handle.__doc__ = schema.__doc__
        options = {"response_model": answer, "openapi_extra": describe(schema)}
        router.post(path, name=path[1:], **options)(handle)

    for path, parts in PREDICT.items():
        add(path, *parts)

    @router.post("/generate", response_model=GENERATE[1], openapi_extra=describe(GENERATE[0]))
    async def generate(request: Request) -> Response:
        """Continues a text, as a stream of server-sent events or as one JSON object.

        Events are `{"text": "part"}`, and at the end `{"done": true, "text": "…"}`.
        """
        with active.request() as take:
            deadline = deadline_of(request, active.options)
            asked, _ = await read(request, GENERATE[0], active.max_body, take, deadline)
            model = choose(repository, asked.model, KINDS["/generate"])
            request.state.model = model.name
            stream = active.stream(
                functools.partial(model.stream, asked.text, asked.max_length, deadline)
            )
            # an error before the first part has its own status
            work = asyncio.ensure_future(anext(stream, None) if asked.stream else join(stream))
            found = await active.wait(work, deadline, request.receive)
            if not asked.stream:
                return json_response(about(model) | {"text": found})
        headers = {"Cache-Control": "no-store"}
        content = events(active, about(model), found, stream)
        return StreamingResponse(content, media_type="text/event-stream", headers=headers)

    return router


async def join(stream: AsyncIterator[str]) -> str:
    return "".join([part async for part in stream])


async def events(
    active: ActiveRequests, start: dict[str, Any], first: str | None, stream: Any
) -> AsyncIterator[bytes]:
    """Server-sent events of the parts of a text; an error is the last event."""
    whole, part = [], first
    active.count += 1
    try:
        while part is not None:
            whole.append(part)
            yield event({"text": part})
            part = await anext(stream, None)
        yield event({"done": True, "text": "".join(whole)} | start)
    except ServingError as error:
        yield event({"error": str(error)})
    finally:
        active.count -= 1
        await stream.aclose()


def event(content: dict[str, Any]) -> bytes:
    return b"data: " + encode(content) + b"\n\n"


async def read(request: Request, schema: Any, *limits: Any) -> tuple[Any, bytes | None]:
    """The request, and its image if that is the body; `limits` are those of `read_body`."""
    body = await read_body(request, *limits)
    content_type = request.headers.get("content-type", "")
    takes_image = "image" in schema.model_fields
    is_image = takes_image and content_type.startswith("image/")
    if is_image and not body:
        raise InvalidRequest(f"the body must be {READABLE}; it is empty")
    if is_image:
        fields: dict[str, Any] = {"image": "", **request.query_params}
    elif takes_image and (content_type.startswith("multipart/") or body.startswith(IMAGES)):
        raise InvalidRequest(
            "send an image with Content-Type: image/png or the like (curl --data-binary @file)"
        )
    else:
        fields = await offload(parse_json, body, size=len(body))
    try:
        return schema.model_validate(fields, strict=not is_image), body if is_image else None
    except ValidationError as error:
        raise InvalidRequest(explain(error, schema, fields)) from None


def explain(error: ValidationError, schema: Any, fields: dict[str, Any]) -> str:
    """What is wrong with the fields of a request, in one line."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = str(first["loc"][0])[:50] if first["loc"] else "request"
    if first["type"] == "missing":
        return f"{name} is missing; got {', '.join(fields)[:100] or 'no fields'}"
    if first["type"] == "extra_forbidden":
        return f"unknown field {name}; known: {', '.join(schema.model_fields)}"
    return f"{name}: {first['msg']}"


def read_items(asked: Any) -> list[Any]:
    """The texts, or the bytes of the images."""
    text = getattr(asked, "text", None)
    return responses.read_images(asked.image) if text is None else responses.as_list(text)


def kind_for(path: str, asked: Any) -> str:
    """The kind of pipeline that answers a request."""
    if path != "/classify":
        return KINDS[path]
    if (asked.image is None) == (asked.text is None):
        raise InvalidRequest("the request must have either image or text")
    return "classifier" if asked.text is None else "text_classifier"


def choose(repository: Any, name: str | None, kind: str) -> Any:
    """The model of a name, or the only one of a kind."""
    if name is not None:
        model = repository.get(name)
        if model.kind != kind:
            raise InvalidRequest(f"{name} must be a {kind} for this request; it is a {model.kind}")
        return model
    found, missing = [], None
    for each in repository.names():
        try:
            model = repository.get(each)
            found += [model] if model.kind == kind else []
        except Unavailable as error:
            missing = error
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(model.name for model in found)
        raise InvalidRequest(f"model must be one of {names}, as there are several of this kind")
    raise missing or NotFound(f"no {kind} is served")


def about(model: Any) -> dict[str, Any]:
    return {"model": model.name, "version": model.version}


def show_model(repository: Any, name: str) -> dict[str, Any]:
    try:
        model = repository.get(name)
    except ServingError:
        states = [status.state for status in repository.statuses(name)]
        unknown = {"kind": None, "version": None, "explains": False, "streams": False}
        return {"name": name, "state": states[0] if states else "START"} | unknown
    shown = ("class_names", "resize", "crop_ratio")
    return (
        {
            "name": name,
            "kind": model.kind,
            "version": model.version,
            "state": "AVAILABLE",
            "explains": responses.EXPLAIN in model.signatures or model.kind == "captioner",
            "streams": model.kind == "generator",
        }
        | responses.largest_count(model)
        | {name: model.options[name] for name in shown if name in model.options}
    )


def describe(schema: Any) -> dict[str, Any]:
    """The request for OpenAPI: FastAPI does not see it, because bodies are read by `read`."""
    content = {"application/json": {"schema": schema.model_json_schema()}}
    if "image" in schema.model_fields:
        content["image/*"] = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"content": content, "required": True}}
