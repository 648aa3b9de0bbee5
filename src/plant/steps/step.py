"""Steps as data, and the one walk over them: each thing is made from what its step declares, once.

A step names what it needs and which sections of the recipe decide it. Digests follow from that declaration, and a step
cannot read what it did not declare; so whoever walks (`Coder.fit`, `plant run`, `plant relate`, ...) finds the same
work done or undone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from plant.recipe.schema import Recipe
from plant.steps.processes import side_by_side
from plant.store.fingerprint import files_digest
from plant.store.keeper import InMemory, Keeper, Kind, Origin, digest_of
from plant.types import Progress, silent

if TYPE_CHECKING:
    from plant.train.together import Together

Section = TypeVar("Section")
EVERYTHING = tuple(field.name for field in fields(Recipe))

Log = Callable[[str, Any], None]
"""Called as `log(name, epoch)` after each epoch of training the thing of that name."""


@dataclass(frozen=True)
class WalkSettings:
    """How a walk is carried out; none of it changes what is made. `facts` are kept with the coder.

    More than one of `processes` asks for a keeper that keeps: things made apart reach this process through its folder.
    """

    keeper: Keeper = field(default_factory=InMemory)
    device: str = "cpu"
    log: Log = lambda name, epoch: None
    progress: Progress = silent
    facts: Mapping[str, Any] = field(default_factory=dict)
    processes: int = 1
    together: "Together | None" = None  # where several processes train what this walk trains


@dataclass(frozen=True)
class Step:
    """How one thing is made; `needs`, `sections`, `knobs` and `files` are all that decide it.

    A step without a `kind` is quick: its thing is not kept. `folder` is where it is kept, with fields of the recipe in
    braces; by itself the step's name. Steps that may be made `apart` can be made side by side, each in a process. What
    is `let_go` is large and asked for by one other step: a walk does not hold it.
    """

    name: str
    make: Callable[["Work"], Any]
    needs: Callable[[Recipe], tuple[str, ...]]
    sections: tuple[str, ...] = ()
    kind: Kind[Any] | None = None
    folder: str = ""
    knobs: Callable[[Recipe], Mapping[str, Any]] = lambda recipe: {}  # that decide it, besides whole sections
    files: Callable[[Recipe], Sequence[str]] = lambda recipe: ()
    kept: Callable[[Recipe], bool] = lambda recipe: True
    apart: bool = False
    let_go: bool = False


def always(*needs: str) -> Callable[[Recipe], tuple[str, ...]]:
    """What a step needs whatever the recipe says."""
    return lambda recipe: needs


@dataclass(frozen=True)
class Root:
    """A thing that a walk starts from, and the digest that stands for it."""

    thing: Any
    key: str = ""


@dataclass(frozen=True)
class Planned:
    """A step in a walk: by which recipe, under which names, and what the things are called there that it needs."""

    step: Step
    recipe: Recipe
    name: str
    folder: str
    needs: Mapping[str, str]


def planned(step: Step, recipe: Recipe, *, prefix: str = "", folder: str = "", given: Iterable[str] = ()) -> Planned:
    """A step for a recipe; with a prefix, apart from the same step of other recipes in one walk."""
    needs = {need: need if need in given else prefix + need for need in step.needs(recipe)}
    sections = {section: getattr(recipe, section) for section in EVERYTHING}
    return Planned(step, recipe, prefix + step.name, folder or (step.folder or step.name).format(**sections), needs)


@dataclass(frozen=True)
class Work:
    """What a step is given to make its thing: what it declared, and nothing else."""

    planned: Planned
    settings: WalkSettings
    checkpoint: Path | None
    fetch: Callable[[str], Any]
    fetch_ahead: Callable[[Sequence[str]], None]

    def __getitem__(self, need: str) -> Any:
        """Something that the step needs."""
        return self.fetch(self.planned.needs[need])

    def get(self, need: str) -> Any:
        """Something that the step may need; None where this recipe does not ask for it."""
        return self[need] if need in self.planned.needs else None

    def ahead(self, *needs: str) -> None:
        """Make what lies on the way to some needs side by side, as far as it may be and processes allow."""
        self.fetch_ahead([self.planned.needs[need] for need in needs])

    def section(self, kind: type[Section]) -> Section:
        """The section of the recipe that is of this kind."""
        recipe = self.planned.recipe
        found = next(name for name in self.planned.step.sections if isinstance(getattr(recipe, name), kind))
        return getattr(recipe, found)

    @property
    def knobs(self) -> Mapping[str, Any]:
        """What decides the thing besides whole sections."""
        return self.planned.step.knobs(self.planned.recipe)

    @property
    def seed(self) -> int:
        """The seed of the recipe."""
        assert "seed" in self.planned.step.sections  # or the digest would not know of it
        return self.planned.recipe.seed

    @property
    def recipe(self) -> Recipe:
        """All of the recipe."""
        assert self.planned.step.sections == EVERYTHING  # or the digest would not know of it
        return self.planned.recipe

    @property
    def progress(self) -> Progress:
        """Who is told how far the work is."""
        return self.settings.progress


@dataclass(frozen=True)
class Walk:
    """Things by name, made when they are first asked for; those of one key are made once."""

    plan: Mapping[str, Planned]
    given: Mapping[str, Root]
    settings: WalkSettings
    made: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        if name in self.given:
            return self.given[name].thing
        key = f"{self.plan[name].step.name} {self.key(name)}"
        if key not in self.made:
            made = self._made(self.plan[name])
            if self.plan[name].step.let_go:
                return made
            self.made[key] = made
        return self.made[key]

    def ahead(self, names: Sequence[str]) -> None:
        """Make the steps on the way to some things that may be made apart, in processes side by side."""
        found = dict.fromkeys(one.name for name in names for one in self.missing(name) if one.step.apart)
        if self.settings.processes < 2 or len(found) < 2:
            return
        for need in dict.fromkeys(need for name in found for need in self.plan[name].needs.values()):
            self[need]  # made once, for all processes
        quiet = replace(self, settings=replace(self.settings, progress=silent))
        jobs = [partial(quiet.__getitem__, name) for name in found]
        side_by_side(jobs, processes=self.settings.processes, progress=self.settings.progress)

    def missing(self, name: str) -> Iterator[Planned]:
        """The steps from a thing backwards, up to those whose things are there."""
        if name in self.given or self._is_kept(self.plan[name]):
            return
        yield self.plan[name]
        for need in self.plan[name].needs.values():
            yield from self.missing(need)

    def _is_kept(self, one: Planned) -> bool:
        kind = one.step.kind if one.step.kept(one.recipe) else None
        return kind is not None and self.settings.keeper.has(one.folder, self.origin(one.name), kind)

    def key(self, name: str) -> str:
        """The digest that stands for a thing, known before it is made."""
        return self.given[name].key if name in self.given else self.origin(name).key

    def origin(self, name: str) -> Origin:
        """What decides a thing, by its step's declaration."""
        if name not in self.origins:  # files are read once
            self.origins[name] = self._origin(self.plan[name])
        return self.origins[name]

    def _origin(self, one: Planned) -> Origin:
        sections = {section: _plain(getattr(one.recipe, section)) for section in one.step.sections}
        decided = {**sections, **one.step.knobs(one.recipe)}
        inputs = {need: self.key(place) for need, place in one.needs.items()}
        recipe = {"recipe": digest_of(decided)} if decided else {}
        return Origin({**inputs, **recipe, **files_digest(one.step.files(one.recipe))}, decided)

    def _made(self, one: Planned) -> Any:
        keeper, origin = self.settings.keeper, self.origin(one.name)
        work = Work(one, self.settings, keeper.checkpoint(one.folder, origin), self.__getitem__, self.ahead)
        if one.step.kind is None or not one.step.kept(one.recipe):
            return one.step.make(work)
        return keeper.once(one.folder, origin, lambda: one.step.make(work), one.step.kind)


def walk(plan: Iterable[Planned], given: Mapping[str, Root], settings: WalkSettings | None = None) -> Walk:
    """The walk over planned steps, from what is given.

    Where members of a recipe keep different things under one name, the later ones' folders tell whose they are.
    """
    steps = {one.name: one for one in plan}
    found = Walk(steps, given, settings or WalkSettings())
    taken: dict[str, str] = {}
    for name, one in steps.items():
        if taken.setdefault(one.folder, found.key(name)) != found.key(name):
            steps[name] = Planned(one.step, one.recipe, name, name.replace("/", "-"), one.needs)
    return found


def _plain(section: Any) -> Any:
    return asdict(section) if is_dataclass(section) and not isinstance(section, type) else section
