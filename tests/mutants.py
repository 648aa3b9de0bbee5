"""Mutation testing of the core: small wrong changes to its code, one at a time, and whether a test notices.

    python -m tests.mutants                        # all mutants of the files below; `make mutants`
    python -m tests.mutants --sample 60 --only thresholds
    python -m tests.mutants --named                # changes that would break a promise of the method

Each mutant is written into a copy of the sources and tried by the tests of its file in a process of its own. A test
that fails, or does not come to an end, has killed it. Prints those that live, and the share killed of each file.
"""

import argparse
import ast
import os
import random
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLANTING = ("tests/numerics/test_fused_decoder.py", "tests/contracts/test_planted.py", "tests/unit/test_fine_tuning.py")
TESTS: Mapping[str, tuple[str, ...]] = {  # the core, and the tests that watch over each file
    "src/plant/train/phases.py": ("tests/unit/test_fine_tuning.py",),
    "src/plant/evaluate/choosing/thresholds.py": (
        "tests/unit/test_evaluate_thresholds.py",
        "tests/unit/test_many_labels.py",
    ),
    "src/plant/data/roles.py": ("tests/unit/test_corpus.py", "tests/unit/test_roles.py"),
    "src/plant/nn/decoders/planted.py": (*PLANTING[1:], PLANTING[0], "tests/numerics/test_listed.py"),
    "src/plant/nn/planting/sources.py": PLANTING,
    "src/plant/nn/planting/attending.py": PLANTING,
    "src/plant/nn/planting/focus.py": PLANTING,
    "src/plant/nn/planting/pieces.py": PLANTING,
}
SWAPS: Mapping[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
EQUIVALENT: Mapping[str, str] = {  # part of a line -> a change to it that changes nothing, and is not counted
    "f1 = 2 * _reaching(np.sort(own), own)": "2 -> 3",  # the best of thrice is the best of twice
    "best = int(np.argmax(2 * _reaching(positives": "2 -> 3",
    "argmax())])": "1.0 -> 2.0",  # less than any F1, as minus one is
    "CANDIDATES = 400": "400 -> 401",
    "near = get_close_matches(name, filter(": "1 -> 2",  # the nearest is the first of two
    "scores.astype(np.float32, copy=False)": "False -> True",
}
TUNED, STATEFUL = "tests/unit/test_fine_tuning.py", "tests/unit/test_stateful.py"
NAMED: Mapping[str, tuple[str, str, str, tuple[str, ...]]] = {  # what -> a file, what stands in it, what then, tests
    "the ranker's rate is ignored": (
        "src/plant/train/phases.py", "planted, recipe.ranker_rate)", "planted, 1.0)", (TUNED,)),
    "the rates of layers are ignored": (
        "src/plant/train/phases.py", "recipe.layer_rate ** (len(layers) - 1 - number)", "1.0", (TUNED,)),
    "layers are unfrozen from the first": (
        "src/plant/train/phases.py", "range(n_layers - 1, 0, -1)", "range(1, n_layers)", (TUNED,)),
    "the last epoch is kept, not the best": (
        "src/plant/train/loop.py", "if self.best_weights:", "if self.best_weights and False:", (TUNED,)),
    "an averaged coder hears its first member only": (
        "src/plant/systems/blend.py", "np.mean(scores, axis=0, dtype=np.float32)", "scores[0]", (TUNED,)),
    "a one-cycle does not warm up": (
        "src/plant/train/schedule.py", "if step < warm:", "if step < 0:", (TUNED,)),
    "a slanted triangle does not warm up": (
        "src/plant/train/schedule.py", "step / cut if step < cut else", "1.0 if step < cut else", (TUNED,)),
    "weights do not decay": (
        "src/plant/train/classifier.py", "=recipe.weight_decay, fused", "=0.0, fused", (TUNED,)),
    "the encoder alone decays": (
        "src/plant/train/classifier.py", "recipe.learning_rate * group.rate}",
        'recipe.learning_rate * group.rate, **({} if group.layer is not None else {"weight_decay": 0.0})}', (TUNED,)),
    "reported notes choose epochs and thresholds": (
        "src/plant/steps/views.py", "Choosing(held_out(corpus, Role.CHOOSE,", "Choosing(held_out(corpus, Role.REPORT,",
        (TUNED,)),
    "the vocabulary counts all notes": (
        "src/plant/data/builder.py", "if recipe.unlabelled_words else {Role.FIT}",
        "if recipe.unlabelled_words else set(Role)", (TUNED,)),
    "notes that choose are fitted on": (
        "src/plant/data/corpus.py", "np.flatnonzero(corpus.role == Role.FIT))\n    kept",
        "np.flatnonzero((corpus.role == Role.FIT) | (corpus.role == Role.CHOOSE)))\n    kept", (TUNED,)),
    "a stateful encoder forgets at every segment": (
        "src/plant/nn/classifier.py", "states, carry = self._read_on(tokens[:, span], carry)",
        "states, _ = self._read_on(tokens[:, span], carry)", (STATEFUL,)),
    "running logits are those of the last segment": (
        "src/plant/nn/classifier.py", "logits = logits + decoder.evidence", "logits = decoder.prior + decoder.evidence",
        (STATEFUL,)),
    "learned attention switches inattention off": (
        "src/plant/nn/planting/sources.py", "kept = survivors(scores, document, self.k)",
        "kept = survivors(scores, document, 10**6)", (TUNED, *PLANTING)),
    "planted attention alone switches inattention off": (
        "src/plant/nn/planting/focus.py", "kept = survivors(scores, document, k)\n        yield",
        "kept = survivors(scores, document, 10**6)\n        yield", (TUNED, *PLANTING)),
    "the learned twin is planted": (
        "src/plant/recipes/plant-printed-small-learned.toml", '"decoder.static=false", ', "",
        ("tests/unit/test_recipe.py",)),
}  # fmt: skip
PATIENCE = 300  # CPU seconds, after which a mutant counts as one that never ends


@dataclass(frozen=True)
class Mutant:
    """A file with one thing changed in it."""

    file: str
    line: int
    what: str
    source: str


def mutants_of(file: str) -> Iterator[Mutant]:
    """All mutants of a file, in reading order."""
    text = (ROOT / file).read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    for number, node in enumerate(_code(tree)):
        for change in range(len(list(_changes(deepcopy(node))))):
            other = deepcopy(tree)
            target = list(_code(other))[number]
            what, line = list(_changes(target, only=change))[change], getattr(node, "lineno", 0)
            if not any(part in lines[line - 1] and what == same for part, same in EQUIVALENT.items()):
                yield Mutant(file, line, what, ast.unparse(other))


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that do something: no annotations, docstrings, decorators, messages of errors and compiled kernels."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "exc"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or _is_silent(node):
                continue
            yield node
            yield from _code(node)


def _is_silent(node: ast.AST) -> bool:
    compiled = isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(mark) for mark in node.decorator_list)
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    alias = isinstance(node, ast.Assign) and "Literal" in ast.unparse(node.value)
    protocol = isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in node.bases)
    return compiled or docstring or alias or protocol or isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr)


def _changes(node: ast.AST, only: int | None = None) -> Iterator[str]:
    """What can be changed about a node, in words; the one numbered `only` is carried out."""
    for number, (what, carry_out) in enumerate(_possible(node)):
        if number == only:
            carry_out()
        yield what


def _possible(node: ast.AST):  # type: ignore[no-untyped-def]
    if isinstance(node, ast.Compare):
        for place, old in enumerate(node.ops):
            new = SWAPS[type(old)]()
            yield f"{_name(old)} -> {_name(new)}", lambda place=place, new=new: node.ops.__setitem__(place, new)
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
        new = SWAPS[type(node.op)]()
        yield f"{_name(node.op)} -> {_name(new)}", lambda: setattr(node, "op", new)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield f"{_name(node.op)} dropped", lambda: setattr(node, "op", _nothing(node))
    elif isinstance(node, ast.IfExp):
        yield "branches exchanged", lambda: node.__dict__.update(body=node.orelse, orelse=node.body)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} -> {not node.value}", lambda: setattr(node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield f"{node.value} -> {node.value + 1}", lambda: setattr(node, "value", node.value + 1)


def _nothing(node: ast.UnaryOp) -> ast.unaryop:
    """An operator that leaves a truth a truth, and a number a number."""
    if isinstance(node.op, ast.Not):
        node.operand = ast.UnaryOp(ast.Not(), node.operand)
        return ast.Not()
    return ast.UAdd()


def _name(operator: ast.AST) -> str:
    return type(operator).__name__


def named_mutants() -> Iterator[tuple[Mutant, tuple[str, ...]]]:
    """The changes that have a name, and the tests that must notice each."""
    for what, (file, old, new, tests) in NAMED.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        before, there, after = text.partition(old)
        if not there or old in after:
            raise SystemExit(f"{file} has {old!r} not once: say anew how {what!r} would look")
        yield Mutant(file, before.count("\n") + 1, what, f"{before}{new}{after}"), tests


def kills(copy: Path, mutant: Mutant, tests: Sequence[str]) -> bool:
    """Whether a test fails for the mutant."""
    original = (ROOT / mutant.file).read_text(encoding="utf-8")
    (copy / mutant.file).write_text(mutant.source, encoding="utf-8")
    try:
        return _fails(copy, tests)
    finally:
        (copy / mutant.file).write_text(original, encoding="utf-8")


def _fails(copy: Path, tests: Sequence[str], *, keep_bytecode: bool = False) -> bool:
    """Whether tests fail in a child, which has all that is slow to import from us."""
    child = os.fork()
    if child == 0:
        _run(copy, tests, keep_bytecode=keep_bytecode)
    _, status = os.waitpid(child, 0)
    return status != 0


def _run(copy: Path, tests: Sequence[str], *, keep_bytecode: bool) -> None:
    """Run tests against a copy of the sources, without checks of annotations, which take most of the time."""
    import pytest

    os.chdir(copy)
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE))  # a busy machine is not patience's end
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    sys.path[:] = [str(copy / "src"), str(copy), *(path for path in sys.path if Path(path).resolve() != ROOT / "src")]
    sys.dont_write_bytecode = not keep_bytecode  # that of a mutant would be taken for the next one's
    for name in [name for name in sys.modules if name.partition(".")[0] in ("plant", "tests")]:
        del sys.modules[name]
    checks = import_module("tests.checks")
    checks.__dict__["check_annotations"] = lambda package: None
    existing = [test for test in tests if (copy / test).is_file()]
    options = ["-q", "-x", "-p", "no:cacheprovider", "--no-header", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    os._exit(int(pytest.main([*options, "--timeout", str(10 * PATIENCE), *existing])))


def _copied(folder: Path) -> Path:
    for name in ("src", "tests", "pyproject.toml"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copy(source, folder / name)
    return folder


def _preload() -> None:
    """Import what takes seconds and is not ours, once."""
    import beartype
    import numba
    import scipy.sparse
    import sklearn.metrics
    import torch

    assert all((beartype, numba, scipy.sparse, sklearn.metrics))
    torch.set_num_threads(1)


def chosen(arguments: argparse.Namespace) -> list[tuple[Mutant, tuple[str, ...]]]:
    """The mutants that are asked for, and their tests; a sample is the same whenever it is drawn."""
    if arguments.named:
        return [(mutant, tests) for mutant, tests in named_mutants() if arguments.only in mutant.file]
    files = [file for file in TESTS if arguments.only in file]
    found = [(mutant, TESTS[file]) for file in files for mutant in mutants_of(file)]
    if not arguments.sample or arguments.sample >= len(found):
        return found
    drawn = random.Random(arguments.seed).sample(range(len(found)), arguments.sample)
    return [found[place] for place in sorted(drawn)]


def main() -> None:
    parser = argparse.ArgumentParser(description="mutation testing of the core")
    parser.add_argument("--only", default="", help="files whose path has this in it")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants, drawn at random (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--named", action="store_true", help="the changes that have a name, instead")
    parser.add_argument("--least", type=float, default=0.9, help="share killed below which this fails")
    arguments = parser.parse_args()
    _preload()
    killed: dict[str, list[bool]] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = _copied(Path(folder))
        for tests in {tests for _, tests in chosen(arguments)}:
            if _fails(copy, tests, keep_bytecode=True):
                raise SystemExit(f"{', '.join(tests)} fail as it is: there is nothing to be learned from mutants")
        with suppress(KeyboardInterrupt):  # what is known by then is printed
            for mutant, tests in chosen(arguments):
                dead = kills(copy, mutant, tests)
                killed.setdefault(mutant.file, []).append(dead)
                if not dead:
                    print(f"lives: {mutant.file}:{mutant.line}: {mutant.what}", flush=True)
    raise SystemExit(tell(killed) < arguments.least)


def tell(killed: Mapping[str, Sequence[bool]]) -> float:
    """Print the share of killed mutants of each file and of all, and return that of all."""
    for file, results in killed.items():
        print(f"{file}: {sum(results)} of {len(results)} killed")
    every = [dead for results in killed.values() for dead in results]
    share = sum(every) / max(1, len(every))
    print(f"{sum(every)} of {len(every)} mutants killed: {share:.1%}")
    return share


if __name__ == "__main__":
    main()
