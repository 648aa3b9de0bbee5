"""Which notes are fitted on, which choose, which are reported."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Role
from plant.data.splits import first_drawn, hold_out_share
from plant.errors import InputError, quoted, quoted_list, reads_like_a_name

CHOOSING = ("dev", "valid", "validation", "val", "dev1")
REPORTING = ("test",)


@dataclass(frozen=True)
class Plan:
    """Splits by role; `choose` may also be a share of the fitted notes that is held out (0: none). Empty: the usual."""

    fit: tuple[str, ...] = ()
    choose: tuple[str, ...] | float = ()
    report: tuple[str, ...] = ()


def parse_plan(*, fit: str = "", choose: str = "", report: str = "") -> Plan:
    """A plan as the command line spells it: `train,dev1`, `0.1` or `dev`, `dev2`."""
    return Plan(fit=_names(fit), choose=_share_or_names(choose), report=_names(report))


def assign_roles(
    splits: Sequence[str],
    labelled: NDArray[np.bool_],
    plan: Plan,
    *,
    ids: Sequence[str],
    groups: Sequence[str],
    seed: int,
    most: int = 0,
) -> NDArray[np.int8]:
    """The role of each note by its split; a split in which no note has a code is unlabelled text.

    Of the notes that would be fitted on, `most` are, drawn by the seed; the rest is unused (0: all are fitted on).
    """
    names = sorted(set(splits))
    unlabelled = {name for name in names if not labelled[[split == name for split in splits]].any()}
    plan = _completed(plan, [name for name in names if name not in unlabelled])
    by_split = dict.fromkeys(unlabelled, Role.UNLABELLED)
    for role, chosen in _by_role(plan):
        for name in chosen:
            _check(name, names, by_split)
            by_split[name] = role
    roles = np.array([by_split.get(split, Role.UNUSED) for split in splits], dtype=np.int8)
    if isinstance(plan.choose, float) and plan.choose:
        fitted = np.flatnonzero(roles == Role.FIT)
        patients = [groups[row] for row in fitted.tolist()]
        held = hold_out_share([ids[row] for row in fitted.tolist()], patients, plan.choose, seed=seed)
        roles[fitted[held]] = Role.CHOOSE
    if most:
        fitted = np.flatnonzero(roles == Role.FIT)
        patients = [groups[row] for row in fitted.tolist()]
        drawn = first_drawn([ids[row] for row in fitted.tolist()], patients, most, seed=seed)
        roles[fitted[~drawn]] = Role.UNUSED
    if not (roles == Role.FIT).any():
        raise InputError(f"no note is left to fit on; the splits are {quoted_list(names)}")
    return roles


def _completed(plan: Plan, names: Sequence[str]) -> Plan:
    fit = plan.fit or tuple(name for name in names if name == "train")
    if not fit:
        raise InputError(f"there is no split 'train' ({quoted_list(names)}): say with --fit which to fit on")
    free = [name for name in names if name not in fit]
    report = plan.report or tuple(name for name in REPORTING if name in free)
    usual = tuple(name for name in CHOOSING if name in free and name not in report)[:1] or 0.1
    return Plan(fit, usual if plan.choose == () else plan.choose, report)


def _by_role(plan: Plan) -> list[tuple[Role, tuple[str, ...]]]:
    choose = () if isinstance(plan.choose, float) else plan.choose
    return [(Role.FIT, plan.fit), (Role.CHOOSE, choose), (Role.REPORT, plan.report)]


def _check(name: str, names: Sequence[str], taken: dict[str, Role]) -> None:
    if name not in names:
        raise InputError(_unknown_split(name, names))
    if name in taken:
        what = "has no codes" if taken[name] == Role.UNLABELLED else f"is already used to {taken[name].name.lower()}"
        raise InputError(f"split {quoted(name)} {what}: a note has one role")


def _unknown_split(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(name, filter(reads_like_a_name, names), n=1)
    hint = f". Did you mean {near[0]!r}?" if near else ""
    return f"unknown split {quoted(name)}; known: {quoted_list(names)}{hint}"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _share_or_names(text: str) -> tuple[str, ...] | float:
    try:
        share = float(text)
    except ValueError:
        return _names(text)
    if not 0 <= share < 1:
        raise InputError(f"--choose {text}: a share lies between 0 and 1, such as 0.1; 0 for recipes that need none")
    return share
