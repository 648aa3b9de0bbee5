"""What may stand in a recipe: every knob of every step, as frozen dataclasses with defaults and ranges."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from plant.errors import RecipeError
from plant.values import Amount, Count, Natural, Positive, Range, Seed

PARTS = {"encoder": "cnn", "decoder": "label-attention", "loss": "bce"}  # the sections of parts, and a name for each
WITHOUT_PARTS = ("prior", "tfidf", "dictionary", "plant-bow", "trees", "xr-linear", "candidates")


@dataclass(frozen=True)
class Prepare:
    """Words, vocabulary and what is kept of a note."""

    min_count: Natural = 3
    max_vocab: Annotated[int, Range(least=3)] = 60_000  # two of them stand for padding and for unknown words
    keep_numbers: bool = False
    keep_text: bool = True
    unlabelled_words: bool = False  # words of the unlabelled text enter the vocabulary too
    fitted_notes: Natural = 0  # so many of the fitted notes, drawn by the seed; the rest is not used; 0: all
    max_tokens: Natural = 0  # 0: no limit; a limit is reported with the number of tokens lost
    seed: Seed = 1  # of splits and shares that are drawn; apart from the recipe's, so that its seeds share their notes


@dataclass(frozen=True)
class Relate:
    """Mutual information between tokens and labels."""

    form: Literal["mi", "normalised", "positive"] = "positive"
    keep: Count = 1000  # tokens per label
    named: Amount = 0.0  # how much more a token counts for a label that is named with it: 1 doubles its relevance
    marked: bool = False  # what human coders marked in the fitted notes are names too


@dataclass(frozen=True)
class Naming:
    """Where the names of labels come from, for recipes that match them."""

    book: bool = True  # titles and synonyms of the code book
    titles_only: bool = False  # of the book: titles word for word, no synonyms and no shorter forms
    mined: bool = True  # what human coders marked in the fitted notes
    synonyms: str = ""  # a table of further names: code, synonyms
    kin: bool = True  # codes of one family (8500/3, 8500/33) lend each other their names, little believed
    codes: str = ""  # further codes, known by their names: a table, or "official" for the whole classification


@dataclass(frozen=True)
class Rank:
    """The learning-to-rank model of tokens per label."""

    form: Literal["mlp", "bilinear"] = "bilinear"
    size: Count = 128
    hidden: Count = 128  # of the mlp
    vectors: Literal["random", "language-model"] = "random"  # where token embeddings start; a model's have its own size
    grade: Literal["log-rank", "scaled"] = "log-rank"
    k: Count = 100  # of the nDCG@k that is learned; a note seldom has the very best tokens of a label
    sigma: Positive = 1.0
    epochs: Count = 40
    labels_per_batch: Count = 64
    learning_rate: Positive = 0.1
    weight_decay: Amount = 0.0
    patience: Natural = 5


@dataclass(frozen=True)
class Pretrain:
    """The language model; the defaults are the full size, for a GPU."""

    direction: Literal["forward", "backward"] = "forward"
    embedding: Count = 400
    hidden: Count = 1152
    layers: Count = 3
    epochs: Count = 20
    batch: Count = 64  # streams of text that are read side by side
    accumulate: Count = 1  # parts of these streams, each with random numbers of its own, whose gradients make an update
    bptt: Count = 80
    learning_rate: Positive = 1e-3
    weight_decay: Amount = 0.01
    clip: Positive = 0.4
    dropout: Amount = 1.0  # multiplier of all five dropouts
    ar: Amount = 2.0  # penalty on large activations, and ...
    tar: Amount = 1.0  # ... on activations that change fast
    sampled_words: Natural = 0  # drawn for each step to stand for the vocabulary in the loss; 0: all words, exactly
    held_out_text: bool = False  # dev and test *text* is read only when this says so, and the manifest records it
    mixed_precision: bool = True  # on GPUs only
    checkpoint_minutes: Amount = 5.0
    seed: Seed = 1  # apart from the recipe's: made once for all its seeds


@dataclass(frozen=True)
class Masked:
    """Further training of a transformer on the corpus's text, by guessing words that are hidden from it."""

    epochs: Natural = 0  # 0: none
    window: Count = 128  # sub-words read at a time
    batch: Count = 32  # windows
    share: Annotated[float, Range(above=0, most=1)] = 0.15  # of the sub-words that are to be guessed
    learning_rate: Positive = 5e-5
    weight_decay: Amount = 0.01
    clip: Positive = 1.0
    held_out_text: bool = False  # dev and test *text* is read only when this says so, and the manifest records it
    mixed_precision: bool = True  # on GPUs only
    checkpoint_minutes: Amount = 5.0
    seed: Seed = 1  # apart from the recipe's: made once for all its seeds


@dataclass(frozen=True)
class Vectors:
    """Word vectors that encoders start from, where `train` says so; `size` becomes that of the encoder's words."""

    train: bool = False
    size: Count = 100
    window: Count = 5
    negatives: Count = 5
    epochs: Natural = 0  # 0: five, or up to fifty where the text is small
    learning_rate: Positive = 0.025
    subsample: Amount = 1e-3
    seed: Seed = 1  # apart from the recipe's: made once for all its seeds


@dataclass(frozen=True)
class Tree:
    """Points of the code tree in hyperbolic space, for decoders that ask for them."""

    size: Count = 50
    epochs: Natural = 100
    negatives: Count = 10  # nodes that a code is told from at a time
    learning_rate: Positive = 0.3
    seed: Seed = 1  # apart from the recipe's: made once for all its seeds


@dataclass(frozen=True)
class Tfidf:
    """Logistic regression over TF-IDF of word n-grams, for `system = "tfidf"`."""

    longest: Count = 1  # words of an n-gram
    min_documents: Count = 3  # fitted notes that must have an n-gram
    max_ngrams: Count = 1_000_000
    cost: Positive = 300.0  # of an error; its inverse is the strength of the L2 penalty
    prune: Amount = 0.1  # weights smaller than this are dropped
    negatives: Literal["all", "near"] = "all"  # notes that a code is told from: all, or those of codes like it
    near: Count = 100  # codes that are most like a code; as many notes again are drawn from all others


@dataclass(frozen=True)
class Bow:
    """Planted bag of words, for `system = "plant-bow"`; which words a label may list says `relate`."""

    significance: Amount = 8.0  # a listed word has at least this G = 2 x texts x mutual information
    epochs: Natural = 3
    learning_rate: Positive = 1.0  # Adagrad's
    start: Amount = 3.0  # the weight of a listed word before it learns
    neighbours: Natural = 200  # fitted texts whose labels are looked at; 0: none, and none is kept with the coder
    stem: Natural = 5  # letters of a word by which it is found in a name; 0: names are not looked at
    held_out: Annotated[float, Range(above=0, most=0.5)] = 0.05  # of the fitted texts, to weigh words, votes and names


@dataclass(frozen=True)
class Trees:
    """Trees of linear classifiers, for `system = "trees"`; the extra `trees` has the library."""

    trees: Count = 3
    branches: Annotated[int, Range(least=2)] = 2  # clusters of labels below a node
    balanced: bool = True  # clusters of the same size
    depth: Count = 20
    smallest: Count = 100  # labels that are not parted any more
    loss: Literal["hinge", "log"] = "hinge"
    cost: Positive = 1.0  # the inverse of the strength of the L2 penalty
    prune: Amount = 0.1  # weights smaller than this are dropped
    beam: Count = 10  # branches that are followed at every depth
    most: Count = 100  # labels of a text that get a score


@dataclass(frozen=True)
class XrLinear:
    """A tree of clusters of labels with a linear classifier for each node, for `system = "xr-linear"`."""

    branches: Annotated[int, Range(least=2)] = 16  # clusters below a node: 2, 4, 8, ...
    smallest: Count = 100  # labels that are not parted any more
    negatives: Literal["own", "followed"] = "own"  # texts of the cluster above; or those, too, that come to it by beam
    cost: Positive = 1.0  # the inverse of the strength of the L2 penalty
    tolerance: Positive = 0.1  # the slope of the dual at which a classifier is fitted
    prune: Amount = 0.1  # weights smaller than this are dropped
    beam: Count = 10  # nodes that are followed on every level


@dataclass(frozen=True)
class Candidates:
    """Coding by candidates, for `system = "candidates"`."""

    language: str = (
        "auto"  # of stems and cue words: "spanish", "english", ...; "auto": that of the fitted notes; "": none
    )
    longest: Count = 22  # words of a mention; longer marks (two fragments as one span) teach no wording
    scorers: tuple[str, ...] = ()  # recipes whose scores of whole notes the judge weighs, fitted like the readers
    deals: Count = 2  # ways of dealing the fitted notes to readers; each teaches a judge, and their scores are averaged


@dataclass(frozen=True)
class Kept:
    """Candidates of another system re-ranked by a transformer that reads their titles, for `system = "kept"`."""

    first: str = ""  # the recipe whose best codes are re-ranked, fitted on the same notes; "": all codes are
    candidates: Count = 50  # of a note
    prompt: Count = 500  # sub-words of titles and their masks that are read at a time


@dataclass(frozen=True)
class LabelTree:
    """A shallow tree over labels with a network for each level, for `system = "label-tree"`."""

    branches: Annotated[int, Range(least=2)] = 16  # labels of a cluster, and clusters of one above: 2, 4, 8, ...
    height: Natural = 2  # levels above the labels; 0: all labels at once, the plain form
    beam: Count = 32  # clusters that are followed on every level
    trees: Count = 1  # of different seeds, averaged
    average_from: Natural = 0  # the epoch from which on weights are averaged; 0: they are not


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

    frozen_epochs: Natural = 0
    unfreezing_epochs: Natural = 0  # for each layer
    epochs: Natural = 20
    patience: Natural = 5  # epochs without a better `measure` on the choosing notes; 0: never stop early
    measure: Literal["MAP", "micro-F1", "P@5", "P@8", "P@15", "loss"] = "MAP"
    batch: Count = 16
    accumulate: Count = 1
    learning_rate: Positive = 2e-3
    encoder_rate: Amount = 1.0
    layer_rate: Amount = 0.4
    ranker_rate: Amount = 0.5
    weight_decay: Amount = 0.01
    schedule: Literal["one-cycle", "slanted-triangular", "constant"] = "one-cycle"
    clip: Positive = 1.0
    segment: Natural = 0  # tokens read at a time by a stateful encoder; 0: whole documents
    detach: bool = True  # no gradient across segments
    recompute: bool = False  # activations within segments again in the backward pass, instead of keeping them all
    cache_gigabytes: Amount = 4.0  # for the states of a frozen encoder; beyond, they are computed anew
    mixed_precision: bool = True  # on GPUs only
    checkpoint_minutes: Amount = 5.0

    def __post_init__(self) -> None:
        if self.frozen_epochs + self.unfreezing_epochs + self.epochs < 1:
            raise RecipeError("fit.epochs must be at least 1, or 0 with fit.frozen_epochs above 0: nothing is fitted")


@dataclass(frozen=True)
class Choose:
    """What is tuned on the choosing notes."""

    thresholds: Literal["global", "per-label"] = "global"
    goal: Literal["micro-F1", "macro-F1"] = "micro-F1"
    shrinkage: Amount = 10.0
    calibrate: bool = False
    blend: Literal["mean", "weights"] = "mean"  # of members: the mean of probabilities, or weights for what each says


@dataclass(frozen=True)
class Recipe:
    """All knobs of a system; a file holds only what differs from these defaults.

    `system` says what is fitted: a classifier of parts, or one of the systems that need no network. `members` names
    recipes that are fitted one after the other, each with the `changes` that were made to this one, and averaged or
    blended; nothing else of this recipe but its seed, `prepare` and `choose` counts then. They imply their `system`.
    """

    system: Literal[
        "classifier",
        "prior",
        "tfidf",
        "dictionary",
        "plant-bow",
        "trees",
        "xr-linear",
        "candidates",
        "kept",
        "label-tree",
        "members",
    ] = "classifier"
    members: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    seed: Seed = 1
    prepare: Prepare = field(default_factory=Prepare)
    relate: Relate = field(default_factory=Relate)
    rank: Rank = field(default_factory=Rank)
    naming: Naming = field(default_factory=Naming)
    pretrain: Pretrain = field(default_factory=Pretrain)
    masked: Masked = field(default_factory=Masked)
    vectors: Vectors = field(default_factory=Vectors)
    tree: Tree = field(default_factory=Tree)
    tfidf: Tfidf = field(default_factory=Tfidf)
    candidates: Candidates = field(default_factory=Candidates)
    bow: Bow = field(default_factory=Bow)
    trees: Trees = field(default_factory=Trees)
    xr_linear: XrLinear = field(default_factory=XrLinear)
    kept: Kept = field(default_factory=Kept)
    label_tree: LabelTree = field(default_factory=LabelTree)
    encoder: Part = Part(PARTS["encoder"])
    decoder: Part = Part(PARTS["decoder"])
    loss: Part = Part(PARTS["loss"])
    fit: Fit = field(default_factory=Fit)
    choose: Choose = field(default_factory=Choose)
