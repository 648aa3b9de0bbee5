"""Words without case and accents: what a name, a note and a list of cue words have in common."""

import unicodedata
from functools import lru_cache


@lru_cache(maxsize=1 << 17)
def fold(word: str) -> str:
    """A word in lower case, without accents, ligatures undone.

    >>> fold("Estadío")
    'estadio'
    """
    if word.isascii():
        return word.lower()
    apart = unicodedata.normalize("NFKD", word).casefold()
    return "".join(mark for mark in unicodedata.normalize("NFKD", apart) if not unicodedata.combining(mark))
