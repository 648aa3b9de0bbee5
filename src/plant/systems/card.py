"""The card of a coder: what it was fitted on, how well it did, and what nobody should expect of it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import plant
from plant.systems.coder import FittedCoder

CARD_JSON, CARD_TEXT = "card.json", "card.md"
RARE = 10  # fitted notes below which a code counts as rare
LIMITS = (
    "It has learned the habits of those who coded its notes, mistakes included; other places, languages, years differ.",
    "It proposes codes for a person to check; it was not made for decisions about care or payment without one.",
    "Probabilities are those of notes like the fitted ones, and so are thresholds.",
)


def card_of(fitted: FittedCoder, figures: Mapping[str, Mapping[str, float]] | None = None) -> dict[str, Any]:
    """All that the card says, as a plain table; no id and no text of a note."""
    counts = fitted.train_counts
    splits = fitted.facts.get("splits", {})
    return {
        "recipe": fitted.facts.get("name", fitted.recipe.system),
        "system": fitted.recipe.system,
        "seed": fitted.recipe.seed,
        "plant_version": plant.__version__,
        "coding_system": fitted.codebook.system,
        "codes": len(fitted.codes),
        "fitted_notes": fitted.train_documents,
        "codes_of_few_notes": int(np.count_nonzero((counts > 0) & (counts < RARE))),
        "codes_without_notes": int(np.count_nonzero(counts == 0)),
        "vocabulary": len(fitted.vocab),
        "notes_by_part": {part: row["notes"] for part, row in sorted(splits.get("parts", {}).items())},
        "split_digest": splits.get("digest", ""),
        "thresholds": fitted.facts.get("threshold_origin", ""),
        "longest_note": fitted.recipe.prepare.max_tokens,
        "figures": {name: dict(row) for name, row in (figures or {}).items()},
        "limits": [*_own_limits(fitted), *LIMITS],
    }


def card_files(card: Mapping[str, Any]) -> dict[str, str]:
    """The card for programs and for people."""
    return {
        CARD_JSON: json.dumps(card, indent=2, ensure_ascii=False, sort_keys=True) + "\n",
        CARD_TEXT: _markdown(card),
    }


def _own_limits(fitted: FittedCoder) -> list[str]:
    rare = int(np.count_nonzero(fitted.train_counts < RARE))
    limits = [
        f"{rare:,} of its {len(fitted.codes):,} codes had fewer than {RARE} fitted notes, or none: check those twice."
    ]
    if fitted.recipe.prepare.max_tokens:
        limits.append(f"It reads the first {fitted.recipe.prepare.max_tokens:,} words of a note and nothing beyond.")
    return limits


def _markdown(card: Mapping[str, Any]) -> str:
    rows = [
        ("recipe", f"`{card['recipe']}` (system {card['system']}, seed {card['seed']}, plant {card['plant_version']})"),
        ("codes", f"{card['codes']:,} of {card['coding_system']}"),
        ("of them rare", f"{card['codes_of_few_notes']:,} with fewer than {RARE} fitted notes, "
                         f"{card['codes_without_notes']:,} with none"),
        ("fitted on", f"{card['fitted_notes']:,} notes, {card['vocabulary']:,} words"),
        ("notes by part", ", ".join(f"{name} {count:,}" for name, count in card["notes_by_part"].items()) or "unknown"),
        ("thresholds", card["thresholds"] or "unknown"),
        ("digest of the splits", f"`{card['split_digest'][:16]}`" if card["split_digest"] else "none"),
    ]  # fmt: skip
    lines = ["# Card of this coder", "", "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows), ""]
    return "\n".join([*lines, "## Figures", "", *_figures(card["figures"]), "", "## Limits", "",
                      *(f"- {limit}" for limit in card["limits"])]) + "\n"  # fmt: skip


def _figures(figures: Mapping[str, Mapping[str, float]]) -> Sequence[str]:
    if not figures:
        return ["None: no notes were reported. `plant run --report SPLIT` or `plant evaluate` measure it."]
    rows = [f"| {name} | {row['value']:.4f} | {_interval(row)} | {_prior(row)} |" for name, row in figures.items()]
    return ["On the reported notes, which it never saw:", "", "| measure | value | 95 % | frequency prior |",
            "|---|---|---|---|", *rows]  # fmt: skip


def _interval(row: Mapping[str, float]) -> str:
    return f"{row['low']:.4f}-{row['high']:.4f}" if "low" in row else ""


def _prior(row: Mapping[str, float]) -> str:
    return f"{row['prior']:.4f}" if "prior" in row else ""
