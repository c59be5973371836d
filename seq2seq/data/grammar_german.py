"""German inflection for the embedded grammar: tables a school grammar would print.

A *column* is "m", "f" or "n" for a singular noun of that gender and "p" for any plural; a *case*
is "nom", "acc" or "dat" (the grammar does without the genitive).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

CASES = ("nom", "acc", "dat")

_DER = {
    "m": ("der", "den", "dem"),
    "f": ("die", "die", "der"),
    "n": ("das", "das", "dem"),
    "p": ("die", "die", "den"),
}
_STRONG = {  # also the endings of dieser and jeder
    "m": ("er", "en", "em"),
    "f": ("e", "e", "er"),
    "n": ("es", "es", "em"),
    "p": ("e", "e", "en"),
}
_EIN = {"m": ("", "en", "em"), "f": ("e", "e", "er"), "n": ("", "", "em"), "p": ("e", "e", "en")}
_WEAK = {
    "m": ("e", "en", "en"),
    "f": ("e", "e", "en"),
    "n": ("e", "e", "en"),
    "p": ("en", "en", "en"),
}
_MIXED = {
    "m": ("er", "en", "en"),
    "f": ("e", "e", "en"),
    "n": ("es", "es", "en"),
    "p": ("en", "en", "en"),
}
_PRONOUN = {
    "m": ("er", "ihn", "ihm"),
    "f": ("sie", "sie", "ihr"),
    "n": ("es", "es", "ihm"),
    "p": ("sie", "sie", "ihnen"),
}
_DECLENSION = {"der": _WEAK, "dies": _WEAK, "jed": _WEAK, "": _STRONG}  # every other: mixed

CONTRACTIONS = {
    ("an", "dem"): "am",
    ("bei", "dem"): "beim",
    ("in", "das"): "ins",
    ("in", "dem"): "im",
    ("von", "dem"): "vom",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}

# Finite forms (singular, plural) of the auxiliaries, third person.
AUXILIARIES = {
    "haben": {"present": ("hat", "haben"), "past": ("hatte", "hatten")},
    "sein": {"present": ("ist", "sind"), "past": ("war", "waren")},
    "werden": {"present": ("wird", "werden"), "past": ("wurde", "wurden")},
}
MODALS = {
    "must": ("muss", "müssen"),
    "can": ("kann", "können"),
    "should": ("sollte", "sollten"),
    "wanted": ("wollte", "wollten"),
}


@cache
def determiner(stem: str, column: str, case: str) -> str:
    """The article or article word of a stem: "der", "dies", "jed", "ein", "kein" and so on."""
    place = CASES.index(case)
    if stem == "der":
        return _DER[column][place]
    if stem in ("dies", "jed"):
        return stem + _STRONG[column][place]
    return stem + _EIN[column][place]


@cache
def adjective(base: str, stem: str, column: str, case: str) -> str:
    """An adjective before a noun, after a determiner of this stem ("" = after none).

    Weak after der-words, mixed after ein-words, strong where no determiner shows the case.
    """
    table = _DECLENSION.get(stem, _MIXED)
    return _attributive_stem(base) + table[column][CASES.index(case)]


def _attributive_stem(base: str) -> str:
    if base == "hoch":
        return "hoh"
    if base.endswith(("uer", "kel")):  # teuer, sauer; dunkel
        return base[:-2] + base[-1]
    return base.removesuffix("e")  # müde


def pronoun(column: str, case: str) -> str:
    """The personal pronoun of the third person."""
    return _PRONOUN[column][CASES.index(case)]


def relative(column: str, case: str) -> str:
    """The relative pronoun."""
    return "denen" if (column, case) == ("p", "dat") else _DER[column][CASES.index(case)]


@dataclass(frozen=True, slots=True)
class GermanNoun:
    """A noun as a dictionary lists it: gender, nominative, plural, weak singular.

    Attributes:
        gender: "m", "f" or "n".
        singular: nominative singular.
        plural: nominative plural, or None where the grammar uses no plural.
        oblique: accusative and dative singular; differs from the nominative in weak nouns.
    """

    gender: str
    singular: str
    plural: str | None
    oblique: str

    @classmethod
    def parse(cls, entry: str) -> GermanNoun:
        """Read "der Kunde, die Kunden; Kunden"."""
        forms, _, oblique = entry.partition("; ")
        article, singular, *rest = forms.replace(",", "").split(" ")
        gender = {"der": "m", "die": "f", "das": "n"}[article]
        plural = rest[1] if rest else None
        return cls(gender, singular, plural, oblique or singular)

    def form(self, plural: bool, case: str) -> str:
        """The noun in a number and case; the dative plural takes -n unless it ends in n or s."""
        if not plural:
            return self.singular if case == "nom" else self.oblique
        if self.plural is None:
            raise ValueError(f"{self.singular} has no plural here")
        if case == "dat" and not self.plural.endswith(("n", "s")):
            return self.plural + "n"
        return self.plural


@dataclass(frozen=True, slots=True)
class GermanVerb:
    """A verb by its principal parts, third person.

    Attributes:
        infinitive: without prefix or particle.
        present: singular, without prefix.
        past: singular (Präteritum), without prefix.
        participle: with its prefix.
        auxiliary: "haben" or "sein".
        prefix: what leaves the verb in a main clause ("ab"; "neu"), or "".
        joined: whether the prefix is written together with the verb where they meet.
        object_case: "acc" or "dat".
    """

    infinitive: str
    present: str
    past: str
    participle: str
    auxiliary: str
    prefix: str
    joined: bool
    object_case: str

    @classmethod
    def parse(cls, entry: str) -> GermanVerb:
        """Read "ab|lehnen, lehnt, lehnte, hat abgelehnt" with ", dat" for a dative object."""
        infinitive, present, past, perfect, *rest = entry.split(", ")
        auxiliary, participle = perfect.split(" ", 1)
        joined = "|" in infinitive
        prefix, _, bare = infinitive.rpartition("|" if joined else " ")
        return cls(
            infinitive=bare,
            present=present,
            past=past,
            participle=participle.removeprefix(f"{prefix} ") if prefix else participle,
            auxiliary={"hat": "haben", "ist": "sein"}[auxiliary],
            prefix=prefix,
            joined=joined,
            object_case=rest[0] if rest else "acc",
        )

    def finite(self, tense: str, plural: bool) -> str:
        """The finite form in the "present" or "past", without the prefix."""
        if tense == "present":
            return self.infinitive if plural else self.present
        if not plural:
            return self.past
        return self.past + ("n" if self.past.endswith("e") else "en")

    def final(self, form: str) -> str:
        """A form as it stands at the end of its clause, with the prefix if that is joined to it."""
        return self.prefix + form if self.joined else form
