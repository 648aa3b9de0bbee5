"""A desk that answers on a port of this machine, and what looks at it."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from plant.serve.access import Access
from plant.serve.app import new_app, new_desk
from plant.serve.desk import Desk
from plant.serve.reader import Reader
from plant.serve.server import answered_hosts, listening
from plant.serve.store import Store
from tests.e2e.test_serve_command import is_ready

ROOT = Path(__file__).parents[2]
AXE = ROOT / "build" / "npm" / "node_modules" / "axe-core" / "axe.min.js"


@contextmanager
def running_desk(reader: Reader, store: Path, *, access: Access | None = None) -> Iterator[tuple[str, Desk]]:
    """The address of a service that runs as long as the block, and its desk."""
    opened = listening("127.0.0.1", 0)
    desk = new_desk(reader, Store(store), access=access, hosts=answered_hosts("127.0.0.1", ()))
    server = uvicorn.Server(uvicorn.Config(new_app(desk), log_config=None, access_log=False, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    yield f"http://127.0.0.1:{opened.getsockname()[1]}/", desk
    server.should_exit = True
    thread.join()


@contextmanager
def desk_apart(coder: Path, store: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A service in a process of its own, which may be killed; the block begins when it is ready."""
    command = [sys.executable, "-c", "from plant.cli.main import main; main()", "serve", str(coder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    options = ["--store", str(store), "--port", str(port)]
    with subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL, env=environment) as server:
        try:
            while not is_ready(f"http://127.0.0.1:{port}/"):
                assert server.poll() is None
                time.sleep(0.05)
            yield server
        finally:
            server.kill()
