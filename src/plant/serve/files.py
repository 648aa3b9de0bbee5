"""The files of the page, read once: nothing else of the disk can be asked for."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request, Response

from plant.serve.problems import Problem

KINDS: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True)
class PageFile:
    """A file with its kind and a tag that changes with its content."""

    content: bytes
    kind: str
    tag: str


def page_files() -> dict[str, PageFile]:
    """Every file of the page by its path below `/`."""
    return dict(_walk(resources.files("plant.serve").joinpath("page"), ""))


def page_router() -> APIRouter:
    """The page under `/`, its files under `/desk/`."""
    router, files = APIRouter(include_in_schema=False), page_files()

    @router.get("/")
    async def index(request: Request) -> Response:
        return _answer(request, files["index.html"])

    @router.get("/desk/{path:path}")
    async def file(path: str, request: Request) -> Response:
        if path not in files:
            raise Problem(404, "the page has no such file")
        return _answer(request, files[path])

    return router


def _walk(folder: Traversable, above: str):  # type: ignore[no-untyped-def]
    for entry in folder.iterdir():
        suffix = entry.name[entry.name.rfind(".") :]
        if entry.is_dir():
            yield from _walk(entry, f"{above}{entry.name}/")
        elif suffix in KINDS:
            content = entry.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            yield f"{above}{entry.name}", PageFile(content, KINDS[suffix], tag)


def _answer(request: Request, file: PageFile) -> Response:
    headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.kind, headers=headers)
