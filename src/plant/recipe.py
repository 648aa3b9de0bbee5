"""Recipes: every knob of every stage, as strict TOML read into frozen dataclasses."""

import tomllib
import types
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from plant.errors import RecipeError, unknown

Section = TypeVar("Section")


@dataclass(frozen=True)
class Prepare:
    """Words, vocabulary and what is kept of a note."""

    min_count: int = 3
    max_vocab: int = 60_000
    keep_numbers: bool = False
    keep_text: bool = True
    unlabelled_words: bool = False  # words of the unlabelled text enter the vocabulary too
    max_tokens: int = 0  # 0: no limit; a limit is reported with the number of tokens lost
    seed: int = 1  # of splits and shares that are drawn; apart from the recipe's, so that its seeds share their notes


@dataclass(frozen=True)
class Relate:
    """Mutual information between tokens and labels."""

    form: Literal["mi", "normalised", "positive"] = "positive"
    keep: int = 1000  # tokens per label
    named: float = 0.0  # how much more a token counts for a label that is named with it: 1 doubles its relevance
    marked: bool = False  # what human coders marked in the fitted notes are names too


@dataclass(frozen=True)
class Naming:
    """Where the names of labels come from, for recipes that match them."""

    book: bool = True  # titles and synonyms of the code book
    mined: bool = True  # what human coders marked in the fitted notes
    synonyms: str = ""  # a table of further names: code, synonyms
    kin: bool = True  # codes of one family (8500/3, 8500/33) lend each other their names, little believed
    codes: str = ""  # a table of further codes, which no fitted note need have: they are known by their names


@dataclass(frozen=True)
class Rank:
    """The learning-to-rank model of tokens per label."""

    form: Literal["mlp", "bilinear"] = "bilinear"
    size: int = 128
    hidden: int = 128  # of the mlp
    vectors: Literal["random", "language-model"] = "random"  # where token embeddings start; a model's have its own size
    grade: Literal["log-rank", "scaled"] = "log-rank"
    k: int = 100  # of the nDCG@k that is learned; a note seldom has the very best tokens of a label
    sigma: float = 1.0
    epochs: int = 40
    labels_per_batch: int = 64
    learning_rate: float = 0.1
    weight_decay: float = 0.0
    patience: int = 5


@dataclass(frozen=True)
class Pretrain:
    """The language model; the defaults are the full size, for a GPU."""

    direction: Literal["forward", "backward"] = "forward"
    embedding: int = 400
    hidden: int = 1152
    layers: int = 3
    epochs: int = 20
    batch: int = 64
    bptt: int = 80
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    clip: float = 0.4
    dropout: float = 1.0  # multiplier of all five dropouts
    ar: float = 2.0  # penalty on large activations, and ...
    tar: float = 1.0  # ... on activations that change fast
    sampled_words: int = 0  # drawn for each step to stand for the vocabulary in the loss; 0: all words, exactly
    held_out_text: bool = False  # dev and test *text* is read only when this says so, and the manifest records it
    mixed_precision: bool = True  # on GPUs only
    checkpoint_minutes: float = 5.0

    def __post_init__(self) -> None:
        for name in ("embedding", "hidden", "layers", "epochs", "batch", "bptt", "learning_rate", "clip"):
            if getattr(self, name) <= 0:
                raise RecipeError(f"pretrain.{name} must be above 0, not {getattr(self, name)}")


@dataclass(frozen=True)
class Masked:
    """Further training of a transformer on the corpus's text, by guessing words that are hidden from it."""

    epochs: int = 0  # 0: none
    window: int = 128  # sub-words read at a time
    batch: int = 32  # windows
    share: float = 0.15  # of the sub-words that are to be guessed
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    clip: float = 1.0
    held_out_text: bool = False  # dev and test *text* is read only when this says so, and the manifest records it
    mixed_precision: bool = True  # on GPUs only
    checkpoint_minutes: float = 5.0


@dataclass(frozen=True)
class Vectors:
    """Word vectors that encoders start from, where `train` says so; `size` becomes that of the encoder's words."""

    train: bool = False
    size: int = 100
    window: int = 5
    negatives: int = 5
    epochs: int = 0  # 0: five, or up to fifty where the text is small
    learning_rate: float = 0.025
    subsample: float = 1e-3
    seed: int = 1  # apart from the recipe's: made once for all its seeds


@dataclass(frozen=True)
class Tfidf:
    """Logistic regression over TF-IDF of word n-grams, for `system = "tfidf"`."""

    longest: int = 1  # words of an n-gram
    min_documents: int = 3  # fitted notes that must have an n-gram
    max_ngrams: int = 1_000_000
    cost: float = 300.0  # of an error; its inverse is the strength of the L2 penalty
    prune: float = 0.1  # weights smaller than this are dropped


@dataclass(frozen=True)
class Part:
    """An encoder, a decoder or a loss by name; its options are those of its builder, checked when it is built."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fit:
    """How a classifier is trained.

    Phases: the encoder frozen (its states computed once), then its layers unfrozen one by one from the last, then all.
    The learning rate of a layer is `layer_rate` times that of the layer above; the ranker's is `ranker_rate` times the
    decoder's.
    """

    frozen_epochs: int = 0
    unfreezing_epochs: int = 0  # for each layer
    epochs: int = 20
    patience: int = 5  # epochs without a better `measure` on the choosing notes; 0: never stop early
    measure: Literal["MAP", "micro-F1", "P@5", "P@8", "P@15", "loss"] = "MAP"
    batch: int = 16
    accumulate: int = 1
    learning_rate: float = 2e-3
    encoder_rate: float = 1.0
    layer_rate: float = 0.4
    ranker_rate: float = 0.5
    weight_decay: float = 0.01
    schedule: Literal["one-cycle", "slanted-triangular", "constant"] = "one-cycle"
    clip: float = 1.0
    segment: int = 0  # tokens read at a time by a stateful encoder; 0: whole documents
    detach: bool = True  # no gradient across segments
    recompute: bool = False  # activations within segments again on the way back, instead of keeping them all
    cache_gigabytes: float = 4.0  # for the states of a frozen encoder; beyond, they are computed anew
    mixed_precision: bool = True  # on GPUs only
    checkpoint_minutes: float = 5.0


@dataclass(frozen=True)
class Choose:
    """What is tuned on the choosing notes."""

    thresholds: Literal["global", "per-label"] = "global"
    goal: Literal["micro-F1", "macro-F1"] = "micro-F1"
    shrinkage: float = 10.0
    calibrate: bool = False
    blend: Literal["mean", "weights"] = "mean"  # of members: the mean of probabilities, or weights for what each says


@dataclass(frozen=True)
class Recipe:
    """All knobs of a system; a file holds only what differs from these defaults.

    `system` says what is fitted: a classifier of parts, or one of the systems that need no network. `members` names
    recipes that are fitted one after the other, each with the `changes` that were made to this one, and averaged or
    blended; nothing else of this recipe but its seed, `prepare` and `choose` counts then.
    """

    system: Literal["classifier", "prior", "tfidf", "members"] = "classifier"
    members: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    seed: int = 1
    prepare: Prepare = field(default_factory=Prepare)
    relate: Relate = field(default_factory=Relate)
    rank: Rank = field(default_factory=Rank)
    naming: Naming = field(default_factory=Naming)
    pretrain: Pretrain = field(default_factory=Pretrain)
    masked: Masked = field(default_factory=Masked)
    vectors: Vectors = field(default_factory=Vectors)
    tfidf: Tfidf = field(default_factory=Tfidf)
    encoder: Part = Part("cnn")
    decoder: Part = Part("label-attention")
    loss: Part = Part("bce")
    fit: Fit = field(default_factory=Fit)
    choose: Choose = field(default_factory=Choose)


def named_recipes() -> tuple[str, ...]:
    """The recipes that come with the package."""
    files = resources.files("plant.recipes").iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def load_recipe(name: str, overrides: Iterable[str] = ()) -> Recipe:
    """A packaged recipe by name or a TOML file by path, changed by `a.b=value` overrides."""
    table, changes = _table(name), tuple(overrides)
    for change in changes:
        table = _overridden(table, change)
    if table.get("members"):
        table["changes"] = changes
    return recipe_from(table, where=f"recipe {name!r}")


def recipe_from(table: Mapping[str, Any], *, where: str) -> Recipe:
    """A recipe from a nested table; `where` is named in errors."""
    return _section(Recipe, table, where=where, path="")


def recipe_table(recipe: Recipe) -> dict[str, Any]:
    """A recipe as plain nested tables, for manifests."""
    return asdict(recipe)


def _table(name: str) -> dict[str, Any]:
    """The recipe's own keys over those of the recipe it `extends`."""
    table = _read(name)
    base = table.pop("extends", None)
    return table if base is None else _merged(_table(base), table)


def _read(name: str) -> dict[str, Any]:
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise RecipeError(f"no recipe file {name!r}")
        text = path.read_text(encoding="utf-8")
    elif name in named_recipes():
        text = resources.files("plant.recipes").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    else:
        raise RecipeError(unknown("recipe", name, named_recipes()) + " (or give the path of a .toml file)")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"recipe {name!r} is not valid TOML: {error}") from error


def _merged(base: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The base with some keys changed; another part (by name) brings its own options and keeps none of the old."""
    if "name" in change and change["name"] != base.get("name"):
        return dict(change)
    merged = dict(base)
    for key, value in change.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _overridden(table: dict[str, Any], override: str) -> dict[str, Any]:
    """The table with one `a.b=value` set; the value is TOML, or a bare string where it is no TOML."""
    key, sign, value = override.partition("=")
    if not sign or not key:
        raise RecipeError(f"cannot read {override!r}: overrides look like section.key=value")
    nested: Any = _toml_value(value)
    for part in reversed(key.strip().split(".")):
        nested = {part: nested}
    return _merged(table, nested)


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def _section(kind: type[Section], table: Any, *, where: str, path: str) -> Section:
    if not isinstance(table, Mapping):
        raise RecipeError(f"{where}: {path or 'the recipe'} must be a table, not {table!r}")
    if kind is Part:
        return _part(table, where=where, path=path)  # type: ignore[return-value]
    hints = get_type_hints(kind)
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise RecipeError(f"{where}: {unknown('key', _join(path, key), [_join(path, name) for name in known])}")
    values = {key: _value(hints[key], value, where=where, path=_join(path, key)) for key, value in table.items()}
    return kind(**values)


def _part(table: Mapping[str, Any], *, where: str, path: str) -> Part:
    """A part from `name` and its options, which stand beside the name in a file."""
    options = {key: value for key, value in table.items() if key not in ("name", "options")}
    if not isinstance(table.get("name"), str):
        raise RecipeError(f'{where}: {path} needs a name, such as {path}.name = "cnn"')
    return Part(table["name"], {**table.get("options", {}), **options})


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _value(kind: Any, value: Any, *, where: str, path: str) -> Any:
    """The value as `kind`; an int passes as a float, nothing else is converted."""
    if is_dataclass(kind):
        return _section(kind, value, where=where, path=path)  # type: ignore[arg-type]
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise RecipeError(f"{where}: {unknown(f'value of {path}:', str(value), get_args(kind))}")
        return value
    if get_origin(kind) in (Union, types.UnionType):
        return _value(next(k for k in get_args(kind) if k is not type(None)), value, where=where, path=path)
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(_value(get_args(kind)[0], item, where=where, path=path) for item in value)
    if get_origin(kind) in (dict, Mapping) or kind in (dict, Mapping):
        return dict(_section_of_options(value, where=where, path=path))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(kind, type) or not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RecipeError(f"{where}: {path} must be {_spelled(kind)}, not {value!r}")
    return value


def _section_of_options(value: Any, *, where: str, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RecipeError(f"{where}: {path} must be a table of options, not {value!r}")
    return value


def _spelled(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))
