"""A claim put to the test: its variants fitted, their rows gathered."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from plant.cluster.pool import Pool
from plant.studies.claims import Claim, Settings
from plant.studies.fittings import QUICK, Notes
from plant.studies.page import Findings
from plant.studies.running import Call
from plant.studies.variants import rows_of_variants


def prove(
    claim: Claim,
    settings: Settings,
    seeds: Sequence[int],
    notes: Notes,
    out: Path,
    *,
    overrides: Sequence[str] = (),
    say: Callable[[str], None] = lambda line: None,
    call: Call | None = None,
    pool: Pool | None = None,
    keep: Path | None = None,
    so_far: bool = False,
) -> Findings:
    """Fit what the claim asks for and say what was found; called again, it goes on where it was stopped.

    With `so_far` nothing is fitted: what is said is said of the runs that are there.
    """
    notes.check()
    changes = (*(QUICK if settings.quick else ()), *overrides)
    seeds = tuple(dict.fromkeys(seeds))[: 1 if settings.quick else None]
    if claim.sources is not None:
        settings = replace(settings, sources=claim.sources(notes, out))
    variants = claim.variants(settings)
    fit = partial(rows_of_variants, variants, seeds, notes, out, claim.rows, overrides=changes)
    rows, failed = fit(say=say, call=call, pool=pool, keep=keep, so_far=so_far)
    return Findings(claim, claim.settled(rows), command_of(claim, settings, seeds, notes, overrides), failed)


def command_of(claim: Claim, settings: Settings, seeds: Sequence[int], notes: Notes, overrides: Sequence[str]) -> str:
    """What to type to repeat a study; the source by its last name, since folders are nobody's business."""
    words = ["plant", "study", claim.name, "--corpus", Path(notes.source).name, *notes.words]
    words += ["--seeds", ",".join(map(str, seeds)), *(["--quick"] if settings.quick else [])]
    words += ["--recipes", ",".join(settings.recipes)] if settings.recipes else []
    return shlex.join([*words, *(word for change in overrides for word in ("--set", change)), "--out", "DIR"])
