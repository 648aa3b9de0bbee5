"""`plant show` of a language model: what it was trained on, how well it foresees words, and a few words of its own."""

import argparse
import json
from pathlib import Path

from plant.cli.console import print_table
from plant.errors import InputError


def add_language_model_options(parser: argparse.ArgumentParser) -> None:
    """`--prompt`, `--words` and `--temperature`."""
    parser.add_argument(
        "--prompt", default="", help="words after which a language model goes on (before: a backward one)"
    )
    parser.add_argument("--words", type=int, default=30, help="how many words it adds (default: 30)")
    parser.add_argument("--temperature", type=float, default=0.7, help="below 1: likelier words (default: 0.7)")
    parser.add_argument("--samples", type=int, default=3, help="how often it tries (default: 3)")


def show_language_model(
    path: Path | str,
    *,
    prompt: str = "",
    words: int = 30,
    temperature: float = 0.7,
    samples: int = 3,
    seed: int = 1,
    as_json: bool = False,
) -> None:
    """Print a language model's facts and `samples` continuations of a prompt."""
    from plant.steps.pretrain import load_pretrained

    if temperature <= 0 or words < 0 or samples < 0:
        raise InputError("--temperature must be above 0, and --words and --samples not below")
    pretrained = load_pretrained(path)
    model, history = pretrained.model, pretrained.history
    texts = [continuation(model, prompt, count=words, temperature=temperature, seed=seed + n) for n in range(samples)]
    if as_json:
        print(json.dumps(_facts(pretrained) | {"samples": texts}, ensure_ascii=False))
        return
    for name, value in _facts(pretrained).items():
        print(f"{name.replace('_', ' ')}: {_spelled(value)}")
    rows = [[e.number, e.loss, e.perplexity or "-", e.accuracy or "-", round(e.tokens_per_second)] for e in history]
    print_table(["epoch", "loss", "perplexity", "accuracy", "tokens/s"], rows)
    for text in texts:
        print(f"\n{text}")


def _spelled(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)


def continuation(model, prompt: str, *, count: int, temperature: float, seed: int) -> str:  # type: ignore[no-untyped-def]
    """A prompt with words drawn after it, or before it for a backward model."""
    import torch

    from plant.text.tokenizer import tokenize

    words = tokenize(prompt).forms
    tokens = torch.from_numpy(model.vocab.encode(words)).long()
    generator = torch.Generator().manual_seed(seed)
    drawn = [
        model.vocab.tokens[n] for n in model.sample(tokens, count=count, temperature=temperature, generator=generator)
    ]
    return " ".join([*words, *drawn] if model.direction == "forward" else [*drawn, *words])


def _facts(pretrained) -> dict[str, object]:  # type: ignore[no-untyped-def]
    network, last = pretrained.model.network, pretrained.history[-1] if pretrained.history else None
    return {
        "direction": pretrained.model.direction,
        "vocabulary": len(pretrained.model.vocab),
        "embedding": network.size,
        "hidden": network.sizes[0],
        "layers": len(network.sizes),
        "parameters": sum(parameter.numel() for parameter in pretrained.model.parameters()),
        "tokens": pretrained.tokens,
        "held_out_text": pretrained.held_out_text,
        "perplexity": last and last.perplexity,
        "accuracy": last and last.accuracy,
    }
