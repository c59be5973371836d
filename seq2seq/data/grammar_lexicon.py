"""The lexicon of the embedded grammar, read from its two TOML files and cross-checked."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from seq2seq.data.grammar_english import EnglishVerb, with_s
from seq2seq.data.grammar_german import GermanNoun, GermanVerb

_STOPPED = "~"  # marks "had stopped responding" in a list of properties
_NEGATED = "-"


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun in both languages, with the pronoun that English uses for it ("" = none)."""

    name: str
    plural: str
    german: GermanNoun
    pronoun: str
    ownable: bool
    belonging: bool

    @property
    def personal(self) -> bool:
        """Whether this is a person, and so never "it"."""
        return self.pronoun != "it"


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective, what it can be said of, and its tags (see lexicon.toml)."""

    name: str
    german: str
    of: frozenset[str]
    tags: frozenset[str]
    scale: str


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in both languages."""

    name: str
    english: EnglishVerb
    german: GermanVerb


@dataclass(frozen=True, slots=True)
class Preposition:
    """A preposition: English words, German word and the case it asks for."""

    english: tuple[str, ...]
    german: str
    case: str


@dataclass(frozen=True, slots=True)
class Property:
    """What a subordinate clause says of a noun: "was (too) slow", "had crashed" …

    Attributes:
        name: the adjective or verb, which with the noun forms a combination.
        kind: "is", "done" (past perfect), "not" (negated) or "stopped" (no longer does).
        too: whether "too" may precede the adjective.
        of: names of the nouns of which this can be said.
    """

    name: str
    kind: str
    too: bool
    of: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reason:
    """One property of one participant that speaks for or against a deed.

    Attributes:
        role: "subject" or "object": whose property it is.
        supports: True if it speaks for the deed.
        property: what is said.
        antecedents: nouns of that role of which it can be said.
        others: nouns of the other role that the pronoun cannot mean.
    """

    role: str
    supports: bool
    property: Property
    antecedents: tuple[Noun, ...]
    others: tuple[Noun, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """One use of a verb: who does it to what, and why (see lexicon_frames.toml)."""

    verb: Verb
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    recipients: tuple[Noun, ...]
    preposition: Preposition | None
    negated: bool
    seen: bool
    only: tuple[str, ...]
    manner: tuple[str, ...]
    places: tuple[str, ...]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Two deeds that one may do with the same thing, one after the other."""

    first: Frame
    second: Frame
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All words and frames, in the order of the files, so that sampling is reproducible."""

    nouns: dict[str, Noun]
    adjectives: dict[str, Adjective]
    verbs: dict[str, Verb]
    prepositions: dict[str, Preposition]
    frames: tuple[Frame, ...]
    chains: tuple[Chain, ...]
    located: dict[str, tuple[str, ...]]
    adverbs: dict[str, tuple[str, ...]]
    passive: frozenset[str]

    def described(self, noun: Noun) -> tuple[Adjective, ...]:
        """Every adjective that can be said of a noun."""
        return tuple(word for word in self.adjectives.values() if noun.name in word.of)


@cache
def lexicon() -> Lexicon:
    """The embedded lexicon."""
    return _Reader(_table("lexicon.toml"), _table("lexicon_frames.toml")).read()


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("seq2seq.data").joinpath(name).read_text("utf-8"))


class _Reader:
    """Resolves the names of the TOML tables into nouns, verbs and frames."""

    def __init__(self, words: dict[str, Any], uses: dict[str, Any]) -> None:
        self.words = words
        self.uses = uses
        self.sets: dict[str, list[str]] = {k: list(v) for k, v in words["nouns"].items()}
        self.sets.update(words["groups"])
        self.places: dict[str, list[str]] = uses["places"]
        self.nouns = self._nouns()
        self.adjectives = self._adjectives()
        self.verbs = {
            key: Verb(key, EnglishVerb.parse(key, words["english"]["verbs"]), GermanVerb.parse(de))
            for key, de in words["verbs"].items()
        }
        self.prepositions = self._prepositions()

    def read(self) -> Lexicon:
        frames = tuple(self._frame(entry) for entry in self.uses["frame"])
        return Lexicon(
            nouns=self.nouns,
            adjectives=self.adjectives,
            verbs=self.verbs,
            prepositions=self.prepositions,
            frames=frames,
            chains=tuple(self._chains(frames)),
            located=self._located(),
            adverbs={key: tuple(value) for key, value in self.uses["adverbs"].items()},
            passive=frozenset(self.uses["passive"]["verbs"]),
        )

    def names(self, entries: Iterable[str]) -> list[str]:
        """Noun names, in order, of a list of nouns, classes and groups; "-x" removes x."""
        found: dict[str, None] = {}
        for entry in entries:
            inner = self._names_of(entry.removeprefix("-"))
            if entry.startswith("-"):
                found = {name: None for name in found if name not in inner}
            else:
                found.update(dict.fromkeys(inner))
        return list(found)

    def _names_of(self, entry: str) -> list[str]:
        if entry in self.sets:
            return self.names(self.sets[entry])
        if any(entry in table for table in self.words["nouns"].values()):
            return [entry]
        raise ValueError(f"lexicon: {entry!r} is no noun, class or group")

    def _nouns(self) -> dict[str, Noun]:
        irregular = self.words["english"]["plurals"]
        persons = set(self.names(["persons"]))
        ownable = set(self.names(["ownable"]))
        belongings = set(self.names(["belongings"]))
        nouns = {}
        for table in self.words["nouns"].values():
            for name, entry in table.items():
                german = GermanNoun.parse(entry)
                person = {"m": "he", "f": "she", "n": ""}[german.gender]
                nouns[name] = Noun(
                    name=name,
                    plural=irregular.get(name, with_s(name)) if german.plural else "",
                    german=german,
                    pronoun=person if name in persons else "it",
                    ownable=name in ownable,
                    belonging=name in belongings,
                )
        return nouns

    def _adjectives(self) -> dict[str, Adjective]:
        scales = {word: name for name, words in self.words["scales"].items() for word in words}
        return {
            name: Adjective(
                name=name,
                german=entry["de"],
                of=frozenset(self.names(entry["of"])),
                tags=frozenset(entry["tags"]),
                scale=scales.get(name, name),
            )
            for name, entry in self.words["adjectives"].items()
        }

    def _prepositions(self) -> dict[str, Preposition]:
        found = {}
        for key, entry in self.words["prepositions"].items():
            german, case = entry.split(" ")
            found[key] = Preposition(tuple(key.partition("/")[0].split(" ")), german, case)
        return found

    def _located(self) -> dict[str, tuple[str, ...]]:
        located: dict[str, tuple[str, ...]] = {}
        for entry, keys in self.uses["located"].items():
            places = tuple(place for key in keys for place in self.places[key])
            located.update(dict.fromkeys(self.names([entry]), places))
        return located

    def _frame(self, entry: dict[str, Any]) -> Frame:
        subjects = self._resolve(entry["subject"])
        objects = self._resolve(entry.get("object", ()))
        return Frame(
            verb=self.verbs[entry["verb"]],
            subjects=subjects,
            objects=objects,
            recipients=self._resolve(entry.get("indirect", ())),
            preposition=self.prepositions[entry["prep"]] if "prep" in entry else None,
            negated=entry.get("negated", False),
            seen=entry.get("seen", False),
            only=tuple(entry.get("only", ())),
            manner=tuple(entry.get("manner", ())),
            places=tuple(p for key in entry.get("place", ()) for p in self.places[key]),
            reasons=tuple(self._reasons(entry, subjects, objects)),
        )

    def _resolve(self, entries: Iterable[str]) -> tuple[Noun, ...]:
        return tuple(self.nouns[name] for name in self.names(entries))

    def _reasons(
        self, entry: dict[str, Any], subjects: tuple[Noun, ...], objects: tuple[Noun, ...]
    ) -> Iterable[Reason]:
        both_fit = entry.get("winograd", False)
        for role, own, other in (("subject", subjects, objects), ("object", objects, subjects)):
            for supports, key in ((True, "for"), (False, "against")):
                for text in entry.get(f"{role}_{key}", ()):
                    said = self._property(text)
                    antecedents = tuple(n for n in own if n.name in said.of and n.pronoun)
                    others = tuple(
                        n for n in other if both_fit or n.personal or n.name not in said.of
                    )
                    if antecedents and all(n.personal for n in antecedents):
                        others = other
                    yield Reason(role, supports, said, antecedents, others)

    def _property(self, text: str) -> Property:
        bare = text.rstrip("!").lstrip(_STOPPED + _NEGATED)
        too = text.endswith("!")
        if bare in self.adjectives:
            return Property(bare, "is", too, self.adjectives[bare].of)
        kind = {_STOPPED: "stopped", _NEGATED: "not"}.get(text[0], "done")
        verb = bare if f"{bare}/function" not in self.verbs else f"{bare}/function"
        of = frozenset(
            name
            for frame in self.uses["frame"]
            if frame["verb"] == verb
            for name in self.names(frame["subject"])
        )
        return Property(verb, kind, too, of)

    def _chains(self, frames: tuple[Frame, ...]) -> Iterable[Chain]:
        for verb, followers in self.uses["chains"].items():
            for follower in followers:
                for first in (frame for frame in frames if frame.verb.name == verb):
                    for second in (frame for frame in frames if frame.verb.name == follower):
                        subjects = tuple(
                            noun
                            for noun in first.subjects
                            if noun in second.subjects and noun.personal and noun.pronoun
                        )
                        objects = tuple(noun for noun in first.objects if noun in second.objects)
                        if subjects and objects:
                            yield Chain(first, second, subjects, objects)
