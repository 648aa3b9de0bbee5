"""Which language a text is written in, by its commonest words: enough to choose stems and cue words."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

LEAST = 0.08  # share of a text's words that must be function words of a language; real notes have 0.2 to 0.45

WORDS = {
    "english": "the of and to in with was for on is at by he she his her from had that were as no an be which",
    "spanish": "de la el en y con se que los del una las por un para al su como lo más es sin no fue le",
    "french": "de la le les et des en du une un est dans par pour au avec sur pas qui que il elle ne se aux",
    "german": "der die und das den von mit des ist ein eine im dem zu bei nicht wurde auf für sich als nach",
    "italian": "di il la e in del con per un una che della al si da dei non nel le alla è delle sono gli dal",
    "portuguese": "de a o e do da em com que para os no um uma na por dos as das ao não foi se pela à mais",
    "dutch": "de van het een en in met is op te dat er bij voor zijn door niet aan was om die ook wordt werd",
}
FUNCTION_WORDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {language: frozenset(words.split()) for language, words in WORDS.items()}
)


FOREIGN, ABSENT = (
    0.05,
    0.03,
)  # shares of function words that some hundred names of another language have, of theirs and ours
FEWEST = 100  # words, below which names tell no language


def other_language(words: Sequence[str], *, than: str) -> str:
    """The language of many short names, where it is certainly another one; empty where it is not, or cannot be told.

    Names have fewer function words than sentences, so that one which stands out suffices, if ours are missing.

    >>> other_language(["fracture", "of", "the", "wrist", "with", "pain"] * 20, than="spanish")
    'english'
    """
    if len(words) < FEWEST or not than:
        return ""
    shares = {language: sum(word in own for word in words) / len(words) for language, own in FUNCTION_WORDS.items()}
    best = max(shares, key=lambda language: (shares[language], language))
    return best if best != than and shares[best] >= FOREIGN and shares[than] <= ABSENT else ""


def language_of(words: Iterable[str]) -> str:
    """The language whose function words are commonest among lower-case words; empty where none stands out.

    >>> language_of("the patient was seen in the clinic with a cough".split())
    'english'
    """
    seen = Counter(words)
    shares = {language: sum(seen[word] for word in own) for language, own in FUNCTION_WORDS.items()}
    best = max(shares, key=lambda language: (shares[language], language))
    return best if shares[best] > LEAST * max(1, seen.total()) else ""
