"""What the lexicon of the embedded grammar holds: words of both languages and deeds with reasons.

`grammar_reader` fills these records from the TOML files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from seq2seq.data.grammar_english import EnglishVerb
from seq2seq.data.grammar_german import GermanNoun, GermanVerb


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun in both languages.

    Attributes:
        name: English singular.
        kind: its class in the lexicon ("animals").
        plural: English plural, "" if the grammar uses none.
        german: the German noun.
        pronoun: English subject pronoun: "he" or "she" for persons, "it" for all else, "" for
            persons whom neither fits ("child").
        tags: "ownable" (my), "belonging" (his own), "kin" (no "a", no "this"), "mass" (no "a").
    """

    name: str
    kind: str
    plural: str
    german: GermanNoun
    pronoun: str
    tags: frozenset[str]

    @property
    def personal(self) -> bool:
        """Whether this is a person, and so never "it"."""
        return self.pronoun != "it"


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective, what it can be said of, and its tags (see lexicon.toml).

    Attributes:
        name: English.
        german: uninflected.
        nouns: all that it can be said of.
        tags: "degree", "state", "epithet".
        scale: words of one scale ("old", "new") are not said of one thing in one sentence.
    """

    name: str
    german: str
    nouns: tuple[Noun, ...]
    tags: frozenset[str]
    scale: str


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in both languages; the name tells senses apart: "eat/animal"."""

    name: str
    english: EnglishVerb
    german: GermanVerb

    @property
    def word(self) -> str:
        """What stands for it in combinations: the English words, whatever the sense."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Preposition:
    """A preposition: English words, German word and the case it asks for."""

    english: tuple[str, ...]
    german: str
    case: str


@dataclass(frozen=True, slots=True)
class Property:
    """What a subordinate clause says of a noun: "was (too) slow", "had crashed".

    Attributes:
        name: the adjective or verb, which with the noun forms a combination.
        kind: "is", "done" (past perfect), "not" (negated) or "stopped" (no longer does).
        too: whether "too" may precede the adjective.
        nouns: all of which this can be said.
    """

    name: str
    kind: str
    too: bool
    nouns: tuple[Noun, ...]


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
    """One use of a verb: who does it to what, and why (see lexicon_frames.toml).

    Attributes:
        verb: the verb.
        subjects: who may do it.
        objects: what it may be done to, or what follows the preposition; empty if nothing does.
        recipients: who may stand in the dative beside the object.
        preposition: governs the objects, if there is one.
        negated: whether the deed is only ever denied ("did not fit").
        definite: whether an indefinite object would be odd ("locked a door").
        seen: whether any property of the object may be named before it.
        habitual: whether it is done every day, and so told in the present tense too.
        deniable: whether "did not" suits it.
        tenses: those that suit it, apart from the present.
        manner: kinds of adverbs that suit it.
        places: where it may happen.
        reasons: why, or why not.
    """

    verb: Verb
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    recipients: tuple[Noun, ...]
    preposition: Preposition | None
    negated: bool
    definite: bool
    seen: bool
    habitual: bool
    deniable: bool
    tenses: tuple[str, ...]
    manner: tuple[str, ...]
    places: tuple[str, ...]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Two deeds with the same thing, one after the other.

    Attributes:
        first: the earlier deed.
        second: the later deed.
        helpers: who can do the first.
        subjects: who can do the second and, where one person does both, the first too.
        objects: what both can be done to.
    """

    first: Frame
    second: Frame
    helpers: tuple[Noun, ...]
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]


@dataclass(slots=True)
class Lexicon:
    """All words and frames, in the order of the files, so that sampling is reproducible."""

    nouns: dict[str, Noun]
    adjectives: dict[str, Adjective]
    verbs: dict[str, Verb]
    prepositions: dict[str, Preposition]
    frames: tuple[Frame, ...]
    chains: tuple[Chain, ...]
    provocations: tuple[Chain, ...]
    located: dict[str, tuple[str, ...]]
    events: dict[str, tuple[str, ...]]
    adverbs: dict[str, tuple[str, ...]]
    passives: tuple[Frame, ...]
    pastimes: tuple[Frame, ...]
    described: dict[str, tuple[Adjective, ...]] = field(init=False)
    epithets: dict[str, tuple[Adjective, ...]] = field(init=False)
    moods: dict[str, tuple[Adjective, ...]] = field(init=False)
    describable: tuple[Noun, ...] = field(init=False)
    locatable: tuple[Noun, ...] = field(init=False)
    speakers: tuple[Noun, ...] = field(init=False)
    habits: tuple[Frame, ...] = field(init=False)
    gifts: tuple[Frame, ...] = field(init=False)
    reasoned: tuple[Frame, ...] = field(init=False)
    breakdowns: tuple[tuple[Frame, Reason], ...] = field(init=False)

    def __post_init__(self) -> None:
        nouns = tuple(self.nouns.values())
        self.described = {
            noun.name: tuple(word for word in self.adjectives.values() if noun in word.nouns)
            for noun in nouns
        }
        self.epithets = {
            noun.name: tuple(
                word
                for word in self.described[noun.name]
                if "epithet" in word.tags
                or (noun.kind == "animals" and "animal epithet" in word.tags)
            )
            for noun in nouns
        }
        self.moods = {  # what a relative clause need not have to do with is left out: new, red
            name: tuple(w for w in words if w.scale == "mood" or "epithet" not in w.tags) or words
            for name, words in self.described.items()
        }
        self.describable = tuple(noun for noun in nouns if self.described[noun.name])
        self.locatable = tuple(self.nouns[name] for name in self.located)
        self.speakers = tuple(noun for noun in nouns if noun.personal and noun.pronoun)
        self.habits = tuple(frame for frame in self.frames if frame.habitual)
        self.gifts = tuple(frame for frame in self.frames if frame.recipients)
        self.reasoned = tuple(frame for frame in self.frames if frame.reasons)
        self.breakdowns = tuple(
            (frame, reason)
            for frame in self.frames
            for reason in frame.reasons
            if reason.role == "object" and reason.property.kind in ("done", "stopped")
        )
