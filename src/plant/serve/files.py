"""The files of the page, read once: nothing else of the disk can be asked for."""

import gzip
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
    """A file with its kind, a tag that changes with its content, and what goes over the wire where gzip is read."""

    content: bytes
    kind: str
    tag: str
    packed: bytes = b""  # empty: packing saves nothing (fonts are packed already)


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
            yield f"{above}{entry.name}", page_file(entry.read_bytes(), KINDS[suffix])


def page_file(content: bytes, kind: str) -> PageFile:
    """A file made ready to be sent, packed once for all who ask."""
    packed = gzip.compress(content, mtime=0)
    tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
    return PageFile(content, kind, tag, packed if len(packed) < len(content) else b"")


def _answer(request: Request, file: PageFile) -> Response:
    headers = {"ETag": file.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    if file.packed and _reads_gzip(request.headers.get("accept-encoding", "")):
        return Response(file.packed, media_type=file.kind, headers={**headers, "Content-Encoding": "gzip"})
    return Response(file.content, media_type=file.kind, headers=headers)


def _reads_gzip(accepted: str) -> bool:
    """Whether a header of encodings names gzip and does not refuse it by `q=0`."""
    offers = (offer.replace(" ", "").lower().partition(";q=") for offer in accepted.split(","))
    return any(name == "gzip" and (not given or share.strip("0.")) for name, given, share in offers)
