"""The verb of a clause in both languages, in every tense of the embedded grammar."""

from __future__ import annotations

from dataclasses import dataclass, field

from seq2seq.data import grammar_english as english
from seq2seq.data import grammar_german as german
from seq2seq.data.grammar_lexicon import Verb
from seq2seq.data.grammar_phrases import Token

_SIMPLE = ("past", "present")  # tenses of one finite verb in both languages


@dataclass(slots=True)
class VerbWords:
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


def verb_words(verb: Verb | None, tense: str, plural: bool, negated: bool) -> VerbWords:
    """The words of a verb (None = "be") in a tense of `grammar_clauses.Clause`."""
    words = VerbWords()
    if verb is None:
        _be(words, tense, plural)
    elif tense in ("stopped", "stops"):
        _no_longer(words, verb, tense, plural)
        return words
    elif tense in _SIMPLE:
        _simple(words, verb, tense, plural, negated)
    else:
        _compound(words, verb, tense, plural)
    if negated:
        source = Token("not")
        words.english.insert(1, source)
        words.negation = [Token("nicht", (source,))]
    return words


def _be(words: VerbWords, tense: str, plural: bool) -> None:
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


def _followers(words: VerbWords, verb: Verb) -> tuple[Token, ...]:
    if verb.english.particle:
        words.particle = Token(verb.english.particle)
        return (words.particle,)
    if verb.english.preposition:
        words.preposition = Token(verb.english.preposition)
        return (words.preposition,)
    return ()


def _simple(words: VerbWords, verb: Verb, tense: str, plural: bool, negated: bool) -> None:
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


def _compound(words: VerbWords, verb: Verb, tense: str, plural: bool) -> None:
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


def _no_longer(words: VerbWords, verb: Verb, tense: str, plural: bool) -> None:
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
