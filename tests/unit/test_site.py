"""The site is built from the docs without a broken link, and its reference is what the package says of itself."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_site_is_built_without_a_broken_link(tmp_path: Path) -> None:
    pytest.importorskip("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "index.html").read_text()
    assert "The first hour" in page
    for asked in ("own-data", "which-recipe", "report", "explaining", "adding-a-part", "hospital"):
        assert (tmp_path / "site" / "guide" / asked / "index.html").is_file()
    for asked in ("models/planted-decoder", "api", "studies"):
        assert (tmp_path / "site" / asked / "index.html").is_file()
        assert f'href="{asked}/"' in page  # found from the first page
    assert not re.findall(r'<(?:script|link)[^>]+(?:src|href)="https?://', page)  # it works offline


def test_the_reference_is_what_the_package_says_of_itself() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import api_reference
    finally:
        sys.path.remove(str(ROOT / "docs"))
    assert (ROOT / "docs" / "api.md").read_text(encoding="utf-8") == api_reference.drawn()


def test_the_container_has_a_user_without_rights_and_knows_where_kernels_lie() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["10001:10001"]  # a number, which clusters can tell from root
    assert lines.index("USER 10001:10001") > max(n for n, line in enumerate(lines) if line.startswith(("RUN", "COPY")))
    assert any("NUMBA_CACHE_DIR=" in line for line in lines)


def test_the_container_file_pleases_its_linter() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.is_file():
        pytest.skip("hadolint is not installed")
    done = subprocess.run([linter, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_citation_names_this_version() -> None:
    import plant

    assert f"version: {plant.__version__}" in (ROOT / "CITATION.cff").read_text()
