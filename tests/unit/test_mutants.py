"""Mutation testing of the core still finds what it changes."""

import ast

import pytest

from tests.mutants import NAMED, ROOT, TESTS, mutants_of, named_mutants


def test_every_named_change_can_be_made_and_its_tests_are_there() -> None:
    changed = list(named_mutants())
    assert [mutant.what for mutant, _ in changed] == list(NAMED)
    assert all((ROOT / test).is_file() for _, tests in changed for test in tests)
    assert all(ast.parse(mutant.source) for mutant, _ in changed if mutant.file.endswith(".py"))


@pytest.mark.parametrize("file", TESTS)
def test_every_mutant_of_the_core_is_a_program_of_its_own(file: str) -> None:
    sources = [mutant.source for mutant in mutants_of(file)]
    assert ast.unparse(ast.parse((ROOT / file).read_text(encoding="utf-8"))) not in sources
    assert len(sources) > 10
    assert all((ROOT / test).is_file() for test in TESTS[file])
