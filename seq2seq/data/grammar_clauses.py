"""Clauses of the embedded grammar: one content, an English word order and the German ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from seq2seq.data.grammar_lexicon import Verb
from seq2seq.data.grammar_phrases import Draft, Part, Phrase, Predicative, Token
from seq2seq.data.grammar_pronouns import RelativePronoun
from seq2seq.data.grammar_verbs import VerbWords, verb_words

CONJUNCTIONS = {
    "because": "weil",
    "although": "obwohl",
    "if": "wenn",
    "when": "als",
    "after": "nachdem",
    "before": "bevor",
    "while": "während",
    "that": "dass",
}
Sentence = tuple[list[Token], list[Token]]  # English and German words, without the final mark


@dataclass(slots=True, kw_only=True)
class Clause:
    """A clause: its participants, its verb (None = "be") and its adverbials.

    A relative clause of the object is "extraposed": it stands last in both languages, in German
    behind the prefix or participle ("schloss den Schrank ab, den sie geputzt hatte").

    The tense is "past", "present", "perfect", "pluperfect", "future", a modal verb ("must"), or
    "passive" (in the past, the agent in place of a place).  "stopped" ("had stopped responding")
    and "stops" ("has stopped responding") are "nicht mehr" with the past and the present.
    """

    draft: Draft
    subject: Phrase
    verb: Verb | None = None
    tense: str = "past"
    negated: bool = False
    indirect: Phrase | None = None
    direct: Phrase | None = None
    predicate: Predicative | None = None
    manner: Part | None = None
    place: Part | None = None
    time: Part | None = None
    time_first: bool = False
    extraposed: Part | None = None
    words: VerbWords = field(init=False)

    def __post_init__(self) -> None:
        self.words = verb_words(self.verb, self.tense, self.subject.plural, self.negated)
        heads = self.predicate.heads if self.predicate else self.words.heads
        self.draft.link("subject", heads, self.subject.heads)
        if self.direct:
            self.draft.link("object", heads, self.direct.heads)
        if self.words.particle:
            links = self.draft.links
            links.append(("particle", "source", self.words.heads[0], self.words.particle))
        if len(self.words.rest) > 1:  # "neu gestartet"
            self.draft.links.append(("particle", "target", self.words.rest[1], self.words.rest[0]))

    def english(self, inverted: bool = False) -> list[Token]:
        """The English words; inverted puts the first verb before the subject."""
        subject, verb = self.subject.english(True), self.words.english
        start = [verb[0], *subject, *verb[1:]] if inverted else subject + verb
        end: list[Token] = []
        if self.indirect:
            end += self.indirect.english(False)
        end += self._english_object()
        if self.predicate:
            end += self.predicate.english()
        for part in (self.manner, self.place, self.extraposed):
            if part:
                end += part.english()
        if self.time and self.time_first:
            return self.time.english() + start + end
        if self.time:
            end += self.time.english()
        if isinstance(self.direct, RelativePronoun):
            return self.direct.english(False) + start + end
        return start + end

    def _english_object(self) -> list[Token]:
        words = self.words
        particle = [words.particle] if words.particle else []
        preposition = [words.preposition] if words.preposition else []
        if self.direct is None or isinstance(self.direct, RelativePronoun):
            return particle + preposition
        noun = self.direct.english(False)
        if self.direct.pronominal:
            return preposition + noun + particle
        return particle + preposition + noun

    def german_main(self) -> list[Token]:
        """Verb second, after the subject or the fronted adverbial."""
        if self.time and self.time_first:
            return self.time.german() + self.german_inverted()
        subject = self.subject.german("nom")
        return [*subject, self.words.finite, *self._middle(), *self._end()]

    def german_inverted(self) -> list[Token]:
        """From the finite verb on: behind whatever stands in front, and in questions."""
        subject = self.subject.german("nom")
        return [self.words.finite, *subject, *self._middle(), *self._end()]

    def german_final(self) -> list[Token]:
        """The finite verb last, joined with its prefix: after a conjunction or relative pronoun."""
        words = self.words
        rest = list(words.rest)
        finite = words.finite
        if words.prefix and self.verb:
            if self.verb.german.joined:
                finite.text = self.verb.german.final(finite.text)
                finite.sources += tuple(s for s in words.prefix.sources if s not in finite.sources)
            else:
                rest.append(words.prefix)
                self._link_prefix(words.prefix)
        start = self.subject.german("nom")
        if isinstance(self.direct, RelativePronoun):
            start = self._german_object() + start
        return [*start, *self._middle(), *rest, finite]

    def _end(self) -> list[Token]:
        prefix = self.words.prefix
        if prefix is not None:
            self._link_prefix(prefix)
        rest = self.words.rest if prefix is None else [prefix]
        return rest + self.extraposed.german() if self.extraposed else rest

    def _link_prefix(self, prefix: Token) -> None:
        self.draft.links.append(("particle", "target", self.words.finite, prefix))

    def _german_object(self) -> list[Token]:
        if self.direct is None:
            return []
        return self.direct.german(self.verb.german.object_case if self.verb else "acc")

    def _middle(self) -> list[Token]:
        relative = isinstance(self.direct, RelativePronoun)
        direct = [] if relative else self._german_object()
        light = direct if self.direct is not None and self.direct.pronominal else []
        middle = list(light)
        if self.indirect:
            middle += self.indirect.german("dat")
        if self.time and not self.time_first:
            middle += self.time.german()
        if not light:
            middle += direct
        middle += self.words.negation
        for part in (self.manner, self.place, self.predicate):
            if part:
                middle += part.german()
        return middle


def joined(main: Clause, conjunction: str, clause: Clause) -> Sentence:
    """Main clause first, no comma in English."""
    source = Token(conjunction)
    target = Token(CONJUNCTIONS[conjunction], (source,))
    return (
        [*main.english(), source, *clause.english()],
        [*main.german_main(), Token(","), target, *clause.german_final()],
    )


def joined_in_front(main: Clause, conjunction: str, clause: Clause) -> Sentence:
    """Subordinate clause first; in German the main clause then begins with its verb."""
    source, comma = Token(conjunction), Token(",")
    target = Token(CONJUNCTIONS[conjunction], (source,))
    return (
        [source, *clause.english(), comma, *main.english()],
        [target, *clause.german_final(), Token(",", (comma,)), *main.german_inverted()],
    )


def coordinated(first: Clause, second: Clause) -> Sentence:
    """Two main clauses; the second has its subject elided."""
    source = Token("and")
    return (
        [*first.english(), source, *second.english()],
        [*first.german_main(), Token("und", (source,)), *second.german_main()],
    )
