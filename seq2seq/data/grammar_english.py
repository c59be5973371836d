"""English inflection for the embedded grammar: regular rules; exceptions are in the lexicon."""

from __future__ import annotations

from dataclasses import dataclass

PARTICLES = frozenset({"on", "off", "away", "up", "along"})
_VOWELS = "aeiou"

# Finite forms (singular, plural), third person.
AUXILIARIES = {
    "past": ("did", "did"),
    "present": ("does", "do"),
    "perfect": ("has", "have"),
    "pluperfect": ("had", "had"),
    "future": ("will", "will"),
    "must": ("must", "must"),
    "can": ("can", "can"),
    "should": ("should", "should"),
    "wanted": ("wanted", "wanted"),
}
BE = {"past": ("was", "were"), "present": ("is", "are")}


def with_s(word: str) -> str:
    """The plural of a regular noun, and the third person of a regular verb."""
    if word.endswith(("s", "x", "ch", "sh", "o")):
        return word + "es"
    if word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "ies"
    return word + "s"


def with_ed(word: str) -> str:
    """The past of a regular verb."""
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "ied"
    return word + "ed"


def article(following: str) -> str:
    """The article "a" or "an"; the lexicon holds no "hour" and no "user"."""
    return "an" if following[0] in _VOWELS else "a"


@dataclass(frozen=True, slots=True)
class EnglishVerb:
    """A verb with the word that follows it: "switch" + "off", "look" + "for".

    Attributes:
        base: infinitive.
        third: third person singular of the present.
        past: simple past.
        participle: past participle.
        particle: a particle that moves behind a pronoun object ("switched it off"), or "".
        preposition: a preposition that stays ("looked for it"), or "".
    """

    base: str
    third: str
    past: str
    participle: str
    particle: str
    preposition: str

    @classmethod
    def parse(cls, key: str, irregular: dict[str, str]) -> EnglishVerb:
        """Read a lexicon key such as "eat/animal" or "switch off"."""
        base, _, follower = key.partition("/")[0].partition(" ")
        past, _, participle = irregular.get(base, "").partition(", ")
        return cls(
            base=base,
            third=with_s(base),
            past=past or with_ed(base),
            participle=participle or with_ed(base),
            particle=follower if follower in PARTICLES else "",
            preposition="" if follower in PARTICLES else follower,
        )
