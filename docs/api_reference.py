"""Write `docs/api.md`, the public face of the package, from signatures and docstrings: python docs/api_reference.py."""

import inspect
import re
from pathlib import Path

import plant

PAGE = Path(__file__).with_name("api.md")
EXAMPLE = re.compile(r"\n\s*>>>.*", re.DOTALL)


def main() -> None:
    PAGE.write_text(drawn(), encoding="utf-8")


def drawn() -> str:
    """The page: every public name, and the methods of classes."""
    names = [name for name in plant.__all__ if name != "__version__"]
    parts = ["# Python reference", "", "What `from plant import ...` gives; drawn by `docs/api_reference.py`.", ""]
    for name in names:
        parts += _entry(name, getattr(plant, name))
    return "\n".join(parts).rstrip() + "\n"


def _entry(name: str, thing: object) -> list[str]:
    lines = [f"## {name}", "", *_said(thing), ""]
    if not inspect.isclass(thing) or issubclass(thing, Exception):
        return lines
    for method, function in vars(thing).items():
        plain = function.__func__ if isinstance(function, staticmethod | classmethod) else function
        if not method.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
            lines += [f"### {name}.{method}", "", *_said(plain), ""]
    return lines


def _said(thing: object) -> list[str]:
    """The signature, the words, and the example of a docstring."""
    text = inspect.getdoc(thing) or ""
    words, example = EXAMPLE.sub("", text).strip(), EXAMPLE.search(text)
    lines = [*_signature(thing), words]
    return [*lines, "", "```python", example.group().strip(), "```"] if example else lines


def _signature(thing: object) -> list[str]:
    if isinstance(thing, property) or (inspect.isclass(thing) and issubclass(thing, Exception)):
        return []
    parameters = [p for p in inspect.signature(thing).parameters.values() if p.name != "self"]  # type: ignore[arg-type]
    return [f"`({', '.join(_parameter(parameter) for parameter in parameters)})`", ""]


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    plain = isinstance(parameter.default, str | int | float | bool | tuple | None)
    default = f"={parameter.default!r}" if plain and parameter.default is not parameter.empty else ""
    return f"{stars}{parameter.name}{default}"


if __name__ == "__main__":
    main()
