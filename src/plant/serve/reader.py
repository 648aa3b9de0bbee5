"""What the coder says of notes, as the desk shows it: ranked codes, phrases, cautions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from plant.coder import Coder
from plant.errors import InputError, PlantError
from plant.explain.phrases import Phrase, ReadText, cautioned, phrases_of_codes, read_text
from plant.explain.table import EXPLAINERS
from plant.serve.catalogue import Catalogue
from plant.serve.schemas import CodeOut, ModelOut, PhraseOut, Place, SectionOut
from plant.store.artifact import read_manifest
from plant.systems.system import OF_SYSTEMS
from plant.text.language import language_of
from plant.text.sections import sections_of
from plant.types import Note, ScoredCode

MOST_SECTIONS = 40  # more lines with a colon are a table, not an outline
LONGEST_TITLE = 48
LONGEST_LINE = 200
KNOWN_EXPLAINERS = (*EXPLAINERS, *OF_SYSTEMS)
PROBE = "A short text, for what is worked out when the coder is first asked."


@dataclass(frozen=True)
class Wish:
    """How notes are to be coded: those of one wish can be read together."""

    top: int = 15
    evidence: bool = True
    explainer: str = ""


@dataclass(frozen=True)
class Explain:
    """One code to be explained, whatever its rank."""

    code: str
    explainer: str = ""


@dataclass(frozen=True)
class Reader:
    """A fitted coder, and what its folder is known by."""

    coder: Coder
    name: str
    digest: str

    @property
    def system(self) -> str:
        """The coding system of its codes."""
        return self.coder.fitted.codebook.system

    @cached_property
    def labels(self) -> Mapping[str, int]:
        """The number of each code."""
        return {code: label for label, code in enumerate(self.coder.classes_)}

    @cached_property
    def explainers(self) -> list[str]:
        """The explainers that go with this coder, tried once on a short text."""
        return [name for name in KNOWN_EXPLAINERS if name != "occlusion" and self._explains(name)]

    def described(self) -> ModelOut:
        """The coder as the service tells of it."""
        return ModelOut(
            name=self.name,
            digest=self.digest,
            recipe=self.coder.fitted.recipe.system,
            codes=len(self.coder.classes_),
            system=self.system,
            explainers=self.explainers,
        )

    def work(self, wish: Wish | Explain, texts: Sequence[str]) -> list[list[ScoredCode]]:
        """The codes of several texts, read together."""
        if isinstance(wish, Explain):
            return [list(self._explained(text, wish).ranked) for text in texts]
        notes = [Note(str(number), text) for number, text in enumerate(texts)]
        options = {"top": wish.top, "evidence": wish.evidence, "explainer": wish.explainer}
        return [list(found.ranked) for found in self.coder.predict_stream(notes, **options)]  # type: ignore[arg-type]

    def shown(self, text: str, ranked: Sequence[ScoredCode], catalogue: Catalogue) -> list[CodeOut]:
        """Ranked codes with titles, chapters and phrases, as they go over the wire."""
        read = read_text(text)
        found = self._phrases(read, ranked)
        return [self._shown(scored, own, catalogue) for scored, own in zip(ranked, found, strict=True)]

    def _phrases(self, read: ReadText, ranked: Sequence[ScoredCode]) -> list[tuple[Phrase, ...]]:
        """The evidence of each code as phrases; what was judged as phrases stays as it is."""
        if any(one.why for scored in ranked for one in scored.evidence):
            return [cautioned(read, scored.evidence) for scored in ranked]
        names = self.coder.fitted.codebook.names
        return phrases_of_codes(read, [(scored.evidence, names(scored.code)) for scored in ranked])

    def _shown(self, scored: ScoredCode, found: Sequence[Phrase], catalogue: Catalogue) -> CodeOut:
        return CodeOut.model_construct(  # our own values: nothing to check
            code=scored.code,
            title=scored.description or catalogue.title(scored.code) or scored.code,
            chapter=catalogue.chapter(scored.code),
            path=catalogue.path(scored.code),
            probability=round(scored.probability, 6),
            threshold=round(float(self.coder.fitted.thresholds[self.labels[scored.code]]), 6),
            suggested=scored.accepted,
            evidence=list(map(_phrase_out, found)),
        )

    def _explained(self, text: str, wish: Explain):  # type: ignore[no-untyped-def]
        return self.coder.explained(Note("0", text), codes=[wish.code], explainer=wish.explainer)

    def _explains(self, name: str) -> bool:
        try:
            self.coder.explain(PROBE, self.coder.classes_[0], explainer=name)
        except PlantError:
            return False
        return True


def open_reader(folder: Path | str) -> Reader:
    """The coder of a folder; of a run, the coder in it."""
    path = Path(folder)
    if not (path / "manifest.json").is_file() and (path / "coder" / "manifest.json").is_file():
        path = path / "coder"
    if not path.is_dir():
        raise InputError(f"there is no folder {folder}: fit a coder with plant run, or plant demo")
    coder = Coder.load(path)
    name = path.resolve().parent.name if path.name == "coder" else path.name
    return Reader(coder, name, read_manifest(path).digest)


def outline(text: str) -> list[SectionOut]:
    """The sections of a note under their headings as they are written: lines that are a heading and nothing else."""
    starts = sections_of(text, language_of(text.lower().split())).starts.tolist()[1:]  # the first has no heading
    lines = [(start, text[start : start + LONGEST_LINE].partition("\n")[0].strip()) for start in starts]
    alone = [(start, line) for start, line in lines if line.endswith(":") or ":" not in line]
    titled = [(start, line) for start, line in alone if line.endswith(":")]
    alone = titled if len(titled) > 1 else alone  # a note writes its headings in one way
    if len(alone) > MOST_SECTIONS:
        return []
    ends = [*(start for start, _ in alone[1:]), len(text)][: len(alone)]
    sections = zip(alone, ends, strict=True)
    return [
        SectionOut(start=start, end=end, title=title) for (start, line), end in sections if (title := _heading(line))
    ]


def _heading(line: str) -> str:
    title = line.strip(" \t\r#*_-•>:").rstrip(".")
    title = title.capitalize() if title.isupper() else title
    return title if len(title) <= LONGEST_TITLE else f"{title[:LONGEST_TITLE].rstrip()}…"


def _phrase_out(phrase: Phrase) -> PhraseOut:
    cue = Place.model_construct(start=phrase.cue[0], end=phrase.cue[1]) if phrase.cue else None
    return PhraseOut.model_construct(
        start=phrase.start,
        end=phrase.end,
        weight=phrase.weight,
        caution=phrase.caution,
        cue=cue,
        matched=phrase.matched,
        why=phrase.why,
    )
