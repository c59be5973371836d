"""Clauses of the embedded grammar: one content, an English word order and the German ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from seq2seq.data import grammar_english as english
from seq2seq.data import grammar_german as german
from seq2seq.data.grammar_lexicon import Verb
from seq2seq.data.grammar_phrases import (
    Adverb,
    Draft,
    Phrase,
    Predicative,
    PrepositionalPhrase,
    RelativePronoun,
    Token,
)

SIMPLE = ("past", "present")  # tenses of one finite verb in both languages


@dataclass(slots=True)
class _VerbWords:
    """The verb of a clause in both languages.

    Attributes:
        english: all English verb words but the particle, in order.
        particle: English particle ("off").
        preposition: English preposition that has no German word of its own ("look for").
        finite: the German finite verb.
        rest: German participle or infinitive with what is written apart before it.
        prefix: the prefix that a main clause leaves at its end.
        negation: "nicht", "nicht mehr".
    """

    english: list[Token] = field(default_factory=list)
    particle: Token | None = None
    preposition: Token | None = None
    finite: Token = field(default_factory=lambda: Token(""))
    rest: list[Token] = field(default_factory=list)
    prefix: Token | None = None
    negation: list[Token] = field(default_factory=list)
    heads: tuple[Token, Token] = field(default_factory=lambda: (Token(""), Token("")))


@dataclass(slots=True, kw_only=True)
class Clause:
    """A clause: its participants, its verb (None = "be") and its adverbials.

    The tense is "past", "present", "perfect", "pluperfect", "future", a modal verb ("must"), or
    "passive" (in the past, the agent among the places).  "stopped" ("had stopped responding")
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
    manner: Adverb | None = None
    places: tuple[PrepositionalPhrase, ...] = ()
    time: Adverb | PrepositionalPhrase | None = None
    time_first: bool = False
    words: _VerbWords = field(init=False)

    def __post_init__(self) -> None:
        self.words = _verb_words(self.verb, self.tense, self.subject.plural, self.negated)
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
        for part in (self.manner, *self.places):
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
        if prefix is None:
            return self.words.rest
        self._link_prefix(prefix)
        return [prefix]

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
        for part in (self.manner, *self.places, self.predicate):
            if part:
                middle += part.german()
        return middle


def _verb_words(verb: Verb | None, tense: str, plural: bool, negated: bool) -> _VerbWords:
    words = _VerbWords()
    if verb is None:
        _be(words, tense, plural)
    elif tense in ("stopped", "stops"):
        _no_longer(words, verb, tense, plural)
        return words
    elif tense in SIMPLE:
        _simple(words, verb, tense, plural, negated)
    else:
        _compound(words, verb, tense, plural)
    if negated:
        source = Token("not")
        words.english.insert(1, source)
        words.negation = [Token("nicht", (source,))]
    return words


def _be(words: _VerbWords, tense: str, plural: bool) -> None:
    if tense == "future":
        source, base = Token("will"), Token("be")
        words.english = [source, base]
        words.finite = Token(german.AUXILIARIES["werden"]["present"][plural], (source,))
        words.rest = [Token("sein", (base,))]
        words.heads = (base, words.rest[0])
        return
    source = Token(english.BE[tense][plural])
    words.english = [source]
    words.finite = Token(german.AUXILIARIES["sein"][tense][plural], (source,))
    words.heads = (source, words.finite)


def _followers(words: _VerbWords, verb: Verb) -> tuple[Token, ...]:
    if verb.english.particle:
        words.particle = Token(verb.english.particle)
        return (words.particle,)
    if verb.english.preposition:
        words.preposition = Token(verb.english.preposition)
        return (words.preposition,)
    return ()


def _simple(words: _VerbWords, verb: Verb, tense: str, plural: bool, negated: bool) -> None:
    forms = verb.english
    if negated:
        auxiliary = Token(english.AUXILIARIES[tense][plural])
        lexical = Token(forms.base)
        words.english = [auxiliary, lexical]
    else:
        inflected = forms.past if tense == "past" else forms.base if plural else forms.third
        lexical = Token(inflected)
        words.english = [lexical]
    verbs = tuple(words.english)
    followers = _followers(words, verb)
    if verb.german.prefix:
        words.prefix = Token(verb.german.prefix, followers or (lexical,))
        followers = ()
    words.finite = Token(verb.german.finite(tense, plural), verbs + followers)
    words.heads = (lexical, words.finite)


def _compound(words: _VerbWords, verb: Verb, tense: str, plural: bool) -> None:
    done = tense in ("perfect", "pluperfect", "passive")
    lexical = Token(verb.english.participle if done else verb.english.base)
    helper = english.BE["past"] if tense == "passive" else english.AUXILIARIES[tense]
    auxiliary = Token(helper[plural])
    linking = [Token("to")] if tense == "wanted" else []
    words.english = [auxiliary, *linking, lexical]
    if done:
        passive = tense == "passive"
        forms = german.AUXILIARIES["werden" if passive else verb.german.auxiliary]
        finite = forms["present" if tense == "perfect" else "past"][plural]
        nonfinite = verb.german.participle
    else:
        modal = german.AUXILIARIES["werden"]["present"] if tense == "future" else None
        finite = (modal or german.MODALS[tense])[plural]
        nonfinite = verb.german.final(verb.german.infinitive)
    words.finite = Token(finite, (auxiliary,))
    content = Token(nonfinite, (*linking, lexical, *_followers(words, verb)))
    apart = verb.german.prefix and not verb.german.joined
    words.rest = [Token(verb.german.prefix, (lexical,))] if apart else []
    words.rest.append(content)
    words.heads = (lexical, content)


def _no_longer(words: _VerbWords, verb: Verb, tense: str, plural: bool) -> None:
    gerund = Token(verb.english.base + "ing")
    if tense == "stopped":
        auxiliary, stopped = Token("had"), Token("stopped")
        words.english = [auxiliary, stopped, gerund]
        finite = verb.german.finite("past", plural)
        words.finite = Token(finite, (auxiliary, gerund))
    else:
        auxiliary, stopped = Token(english.AUXILIARIES["perfect"][plural]), Token("stopped")
        words.english = [auxiliary, stopped, gerund]
        finite = verb.german.finite("present", plural)
        words.finite = Token(finite, (auxiliary, gerund))
    words.negation = [Token("nicht", (stopped,)), Token("mehr", (stopped,))]
    words.heads = (gerund, words.finite)
