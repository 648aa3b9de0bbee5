"""Object stores, s3:// and gs://: the one place that speaks to them, by pyarrow, when such an address is named.

An object appears whole when its upload ends, and cannot be renamed. An artifact is therefore there when its manifest
is, which is written last.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plant.errors import InputError, quoted_path

ADDRESS = re.compile(r"(?P<scheme>s3|gs):/{1,2}(?P<key>[^/].*)", re.DOTALL)  # a Path leaves one of the two slashes
MISSING = "addresses s3:// and gs:// need pyarrow: pip install 'plant-xmtc[remote]'"
REASON = re.compile(r"AWS Error ([A-Z_]{3,40})|HTTP status (\d{3})")
CONNECT, REQUEST, TRIES = 10.0, 120.0, 4  # seconds, and how often a request is made that fails for a while


def is_remote(name: Path | str) -> bool:
    """Whether a name is the address of an object, or of many that begin alike."""
    return ADDRESS.fullmatch(str(name)) is not None


def address_of(name: Path | str) -> str:
    """The address, written one way."""
    found = ADDRESS.fullmatch(str(name))
    assert found is not None
    return f"{found['scheme']}://{found['key'].rstrip('/')}"


@dataclass(frozen=True)
class Remote:
    """An address and the store that it is in."""

    address: str
    files: Any  # pyarrow.fs.FileSystem

    @property
    def key(self) -> str:
        return self.address.partition("://")[2]

    def child(self, name: str) -> "Remote":
        """What lies under this address by a name."""
        return Remote(f"{self.address}/{name}", self.files)

    def is_file(self) -> bool:
        """Whether there is an object of just this address."""
        with self._told():
            return bool(self.files.get_file_info(self.key).is_file)

    def names(self) -> list[str]:
        """The names of objects directly under this address, in order; none where there is nothing."""
        from pyarrow.fs import FileSelector

        with self._told():
            found = self.files.get_file_info(FileSelector(self.key, allow_not_found=True))
        return sorted(info.base_name for info in found if info.is_file)

    def read(self) -> bytes:
        """All that an object holds."""
        with self._told(), self.files.open_input_stream(self.key, compression=None) as stream:
            return bytes(stream.read())

    def fetch(self, target: Path) -> None:
        """Copy an object into a file; as the copy may be cut short by a kill, into a temporary one."""
        from pyarrow.fs import LocalFileSystem, copy_files

        here = LocalFileSystem()
        with self._told():
            copy_files(self.key, str(target), source_filesystem=self.files, destination_filesystem=here)

    def put(self, source: Path) -> None:
        """Copy a file that is whole: the object is there when all of it is."""
        from pyarrow.fs import LocalFileSystem, copy_files

        here = LocalFileSystem()
        with self._told():
            copy_files(str(source), self.key, source_filesystem=here, destination_filesystem=self.files)

    def delete(self) -> None:
        """Remove an object, if it is there."""
        if self.is_file():
            with self._told():
                self.files.delete_file(self.key)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What stores answer in pages is one line here."""
        try:
            yield
        except FileNotFoundError as error:
            raise InputError(f"there is no object {self._named()}") from error
        except (OSError, ValueError) as error:  # pyarrow's own are kinds of these
            found = REASON.search(str(error))
            reason = (found[1] or found[2]) if found else type(error).__name__
            raise InputError(
                f"{self._named()} cannot be read or written ({reason}): look at the address, at your credentials "
                "for it and, for a store of your own, at $AWS_ENDPOINT_URL"
            ) from error

    def _named(self) -> str:
        return quoted_path(self.address)


def opened(name: Path | str) -> Remote:
    """The store of an address; credentials, region and endpoint are those of the environment, as of other tools."""
    address = address_of(name)
    scheme, _, key = address.partition("://")
    try:
        import pyarrow.fs  # noqa: F401
    except ImportError as error:
        raise InputError(MISSING) from error
    found = Remote(address, None)
    with found._told():
        return Remote(address, _google() if scheme == "gs" else _amazon(key.partition("/")[0]))


def _amazon(bucket: str) -> Any:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region and not endpoint:
        region = resolve_s3_region(bucket)
    return S3FileSystem(
        endpoint_override=endpoint,
        region=region or "us-east-1",
        connect_timeout=CONNECT,
        request_timeout=REQUEST,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=TRIES),
    )


def _google() -> Any:
    from datetime import timedelta

    from pyarrow.fs import GcsFileSystem

    return GcsFileSystem(retry_time_limit=timedelta(seconds=REQUEST))


@contextmanager
def local_file(name: Path | str) -> Iterator[Path]:
    """The file of a name: itself, or a copy of an object that lasts as long as the block and keeps its name."""
    if not is_remote(name):
        yield Path(name)
        return
    found = opened(name)
    with tempfile.TemporaryDirectory(prefix="plant-") as folder:
        target = Path(folder) / found.address.rpartition("/")[2]
        found.fetch(target)
        yield target
