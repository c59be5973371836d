"""Reads the lexicon of the embedded grammar from its two TOML files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import Any

from seq2seq.data.grammar_english import EnglishVerb, with_s
from seq2seq.data.grammar_german import GermanNoun, GermanVerb
from seq2seq.data.grammar_lexicon import (
    Adjective,
    Chain,
    Frame,
    Lexicon,
    Noun,
    Preposition,
    Property,
    Reason,
    Verb,
)

_KINDS = {"~": "stopped", "-": "not"}  # marks before a verb in a list of reasons
_NOUN_TAGS = {"ownable": "ownable", "belongings": "belonging", "kin": "kin", "mass": "mass"}
_PERSON_PRONOUNS = {"m": "he", "f": "she", "n": ""}

Nouns = tuple[Noun, ...]
Table = dict[str, Any]


@cache
def lexicon() -> Lexicon:
    """The embedded lexicon."""
    return _Reader(_table("lexicon.toml"), _table("lexicon_frames.toml")).read()


def _table(name: str) -> Table:
    return tomllib.loads(resources.files("seq2seq.data").joinpath(name).read_text("utf-8"))


class _Reader:
    """Resolves the names of the TOML tables into nouns, verbs and frames."""

    def __init__(self, words: Table, uses: Table) -> None:
        self.words = words
        self.uses = uses
        self.sets: dict[str, list[str]] = {k: list(v) for k, v in words["nouns"].items()}
        self.sets.update(words["groups"])
        self.places: dict[str, list[str]] = uses["places"]
        self.nouns = dict(self._nouns())
        self.adjectives = dict(self._adjectives())
        irregular = words["english"]["verbs"]
        self.verbs = {
            key: Verb(key, EnglishVerb.parse(key, irregular), GermanVerb.parse(entry))
            for key, entry in words["verbs"].items()
        }
        self.prepositions = dict(self._prepositions())

    def read(self) -> Lexicon:
        frames = tuple(self._frame(entry) for entry in self.uses["frame"])
        verbs: dict[str, list[str]] = self.uses["verbs"]
        return Lexicon(
            nouns=self.nouns,
            adjectives=self.adjectives,
            verbs=self.verbs,
            prepositions=self.prepositions,
            frames=frames,
            chains=tuple(_chains(frames, self.uses["chains"], alone=True)),
            provocations=tuple(_chains(frames, self.uses["provocations"], alone=False)),
            located=self._by_noun(
                {
                    entry: [place for key in keys for place in self.places[key]]
                    for entry, keys in self.uses["located"].items()
                }
            ),
            events=self._by_noun(self.uses["events"]),
            adverbs={key: tuple(value) for key, value in self.uses["adverbs"].items()},
            passives=tuple(f for f in frames if f.verb.name in verbs["passive"]),
            pastimes=tuple(
                frame
                for frame in frames
                if frame.verb.name in verbs["pastimes"] and frame.subjects[0].personal
            ),
        )

    # -- names ---------------------------------------------------------------------------------

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

    def _resolve(self, entries: Iterable[str]) -> Nouns:
        return tuple(self.nouns[name] for name in self.names(entries))

    def _by_noun(self, table: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
        return {
            name: tuple(values) for entry, values in table.items() for name in self.names([entry])
        }

    # -- words ---------------------------------------------------------------------------------

    def _nouns(self) -> Iterator[tuple[str, Noun]]:
        irregular = self.words["english"]["plurals"]
        persons = set(self.names(["persons"]))
        tagged = {tag: set(self.names([group])) for group, tag in _NOUN_TAGS.items()}
        for kind, table in self.words["nouns"].items():
            for name, entry in table.items():
                german = GermanNoun.parse(entry)
                yield (
                    name,
                    Noun(
                        name=name,
                        kind=kind,
                        plural=irregular.get(name, with_s(name)) if german.plural else "",
                        german=german,
                        pronoun=_PERSON_PRONOUNS[german.gender] if name in persons else "it",
                        tags=frozenset(tag for tag, names in tagged.items() if name in names),
                    ),
                )

    def _adjectives(self) -> Iterator[tuple[str, Adjective]]:
        scales = {word: scale for scale, words in self.words["scales"].items() for word in words}
        for name, entry in self.words["adjectives"].items():
            yield (
                name,
                Adjective(
                    name=name,
                    german=entry["de"],
                    nouns=self._resolve(entry["of"]),
                    tags=frozenset(entry["tags"]),
                    scale=scales.get(name, name),
                ),
            )

    def _prepositions(self) -> Iterator[tuple[str, Preposition]]:
        for key, entry in self.words["prepositions"].items():
            german, case = entry.split(" ")
            yield key, Preposition(tuple(key.partition("/")[0].split(" ")), german, case)

    # -- frames --------------------------------------------------------------------------------

    def _frame(self, entry: Table) -> Frame:
        subjects = self._resolve(entry["subject"])
        objects = self._resolve(entry.get("object", ()))
        verbs = self.uses["verbs"]
        return Frame(
            verb=self.verbs[entry["verb"]],
            subjects=subjects,
            objects=objects,
            recipients=self._resolve(entry.get("indirect", ())),
            preposition=self.prepositions[entry["prep"]] if "prep" in entry else None,
            negated=entry.get("negated", False),
            definite=entry["verb"] in verbs["definite"],
            seen=entry.get("seen", False),
            habitual=entry["verb"] in verbs["daily"],
            deniable="only" not in entry or "can" in entry["only"],
            tenses=tuple(entry.get("only", ()))
            or _tenses(subjects, entry["verb"] in verbs["duty"]),
            manner=tuple(entry.get("manner", ())),
            places=tuple(p for key in entry.get("place", ()) for p in self.places[key]),
            reasons=tuple(self._reasons(entry, subjects, objects)),
        )

    def _reasons(self, entry: Table, subjects: Nouns, objects: Nouns) -> Iterator[Reason]:
        for role, own, other in (("subject", subjects, objects), ("object", objects, subjects)):
            for supports, key in ((True, "for"), (False, "against")):
                for text in entry.get(f"{role}_{key}", ()):
                    said = self._property(text)
                    meant = tuple(n for n in own if n in said.nouns and n.pronoun)
                    # Of "fit", size says enough: what is too big is what should go in.
                    others = other if entry.get("sizes") else _not_meant(meant, other, said)
                    if not meant or (other and not others):
                        raise ValueError(f"lexicon: {text!r} decides nothing in {entry['verb']!r}")
                    yield Reason(role, supports, said, meant, others)

    def _property(self, text: str) -> Property:
        bare = text.rstrip("!").lstrip("~-")
        if bare in self.adjectives:
            return Property(bare, "is", text.endswith("!"), self.adjectives[bare].nouns)
        verb = f"{bare}/function" if f"{bare}/function" in self.verbs else bare
        frames = [frame for frame in self.uses["frame"] if frame["verb"] == verb]
        nouns = self._resolve(name for frame in frames for name in frame["subject"])
        return Property(verb, _KINDS.get(text[0], "done"), False, nouns)


def _tenses(subjects: Nouns, duty: bool) -> tuple[str, ...]:
    tenses = ("past", "perfect", "future", "can")
    if not subjects[0].personal:
        return tenses
    return (*tenses, "wanted", "must", "should") if duty else (*tenses, "wanted")


def _not_meant(meant: Nouns, other: Nouns, said: Property) -> Nouns:
    """The nouns of the other role that "it" cannot mean; persons are told apart by he and she."""
    if all(noun.personal for noun in meant):
        return other
    return tuple(noun for noun in other if noun.personal or noun not in said.nouns)


def _chains(frames: tuple[Frame, ...], table: Table, *, alone: bool) -> Iterator[Chain]:
    """Chains of the verbs in a table; alone: one person can do both deeds."""
    for verb, followers in table.items():
        for first in (frame for frame in frames if frame.verb.name == verb):
            for second in (frame for frame in frames if frame.verb.name in followers):
                helpers = tuple(n for n in first.subjects if n.personal and n.pronoun)
                subjects = tuple(
                    noun
                    for noun in second.subjects
                    if noun.personal and noun.pronoun and (noun in helpers or not alone)
                )
                objects = tuple(
                    noun for noun in first.objects if noun in second.objects and not noun.personal
                )
                if helpers and subjects and objects:
                    yield Chain(first, second, helpers, subjects, objects)
