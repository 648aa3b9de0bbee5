"""What puts the desk on a machine says what the program understands, and is what other programs read."""

import argparse
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from plant.cli.serve import configure

ROOT = Path(__file__).parents[2]
COMPOSE, UNIT = ROOT / "compose.yaml", ROOT / "deploy" / "plant-desk.service"


def understood(words: list[str]) -> argparse.Namespace:
    """The options of `plant serve`, as it reads them."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    configure(parser)
    assert words[0] == "serve"
    return parser.parse_args(words[1:])


def test_the_composed_desk_needs_keys_and_keeps_everything_in_postgresql() -> None:
    composed = yaml.safe_load(COMPOSE.read_text())
    desk, database = composed["services"]["desk"], composed["services"]["database"]
    options = understood(desk["command"])
    assert (options.words, options.proxy_user) == (["/data/coder"], "")
    assert options.store == f"postgresql://{database['environment']['POSTGRES_USER']}@database/plant"
    assert options.store_password == database["environment"]["POSTGRES_PASSWORD_FILE"]
    assert desk["depends_on"]["database"]["condition"] == "service_healthy"
    assert (desk["read_only"], desk["cap_drop"]) == (True, ["ALL"])
    assert all(port.startswith("127.0.0.1:") for port in desk["ports"])
    assert "ports" not in database
    assert set(desk["secrets"]) | set(database["secrets"]) == set(composed["secrets"])
    named = re.search(r"desk serve keys add anna (.*?) #", COMPOSE.read_text().replace("\\\n#", " "), re.S)
    assert named
    assert understood(["serve", "keys", "add", "anna", *named[1].split()]).store == options.store


def test_the_unit_starts_what_the_program_understands() -> None:
    [start] = re.findall(r"ExecStart=(.*)", UNIT.read_text())
    options = understood(shlex.split(start)[1:])
    assert (options.host, options.proxy_user) == ("127.0.0.1", "X-Remote-User")
    assert f"proxy_set_header {options.proxy_user} $remote_user;" in (ROOT / "deploy" / "nginx.conf").read_text()
    [stop] = re.findall(r"TimeoutStopSec=(\d+)", UNIT.read_text())
    assert int(stop) > options.seconds


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    (tmp_path / UNIT.name).write_text(UNIT.read_text().replace("/opt/plant/bin/plant", "/bin/true"))
    command = ["systemd-analyze", "verify", str(tmp_path / UNIT.name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("nginx"), reason="needs nginx")
def test_nginx_finds_nothing_wrong_with_the_example(tmp_path: Path) -> None:
    example = (ROOT / "deploy" / "nginx.conf").read_text()
    plain = re.sub(r" *ssl_certificate(_key)? .*;\n| *auth_basic_user_file .*;\n", "", example).replace(" ssl;", ";")
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid; error_log stderr; events {{}}\nhttp {{ access_log off; {plain} }}\n"
    )
    done = subprocess.run(
        ["nginx", "-t", "-c", str(tmp_path / "nginx.conf")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
