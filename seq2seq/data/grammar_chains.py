"""Sentence patterns of two deeds with the same thing, the second of which calls it "it"."""

from __future__ import annotations

from collections.abc import Callable

from seq2seq.data.grammar_clauses import Sentence, coordinated, joined, joined_in_front
from seq2seq.data.grammar_lexicon import Chain, Noun
from seq2seq.data.grammar_phrases import NounPhrase
from seq2seq.data.grammar_pronouns import Elided, Pronoun, RelativeClause, RelativePronoun
from seq2seq.data.grammar_sampling import GiveUp, Sampler, Weighted

_DEFINITE = ("the", "the", "the", "this")
_Shape = Callable[[Sampler, Chain, NounPhrase, NounPhrase], Sentence]


def chain(sampler: Sampler) -> Sentence:
    """One person does both deeds, or does one with what somebody else had done the other to."""
    link = sampler.dice.pick(sampler.lexicon.chains)
    shape = sampler.dice.draw(_SHAPES)
    actor, thing = sampler.dice.pick(link.subjects), sampler.dice.pick(link.objects)
    subject = sampler.phrase(actor)
    definite = link.first.definite or link.second.definite
    if shape is _which:
        number = bool(thing.plural) and sampler.dice.chance(0.2)
        plain = NounPhrase(sampler.draft, thing, sampler.dice.pick(_DEFINITE), plural=number)
        return _which(sampler, link, subject, plain)
    target = sampler.phrase(
        thing,
        owner=subject,
        plural=False if subject.plural else None,
        definite=definite,
    )
    return shape(sampler, link, subject, target)


def provoked(sampler: Sampler) -> Sentence:
    """The man looked for the key because the boy had hidden it."""
    link = sampler.dice.pick(sampler.lexicon.provocations)
    actor, thing = sampler.dice.pick(link.subjects), sampler.dice.pick(link.objects)
    subject = sampler.phrase(actor)
    number = False if subject.plural else None
    target = sampler.phrase(thing, owner=subject, plural=number, definite=True)
    return _prepared(sampler, link, subject, target)


def _after(sampler: Sampler, link: Chain, subject: NounPhrase, target: NounPhrase) -> Sentence:
    """The developer deployed the application after he had tested it."""
    nouns, again = (subject.noun, target.noun), Pronoun.of(sampler.draft, subject)
    pronoun = Pronoun.of(sampler.draft, target)
    first = sampler.event(link.first, nouns, again, pronoun, "pluperfect")
    second = sampler.event(link.second, nouns, subject, target, "past")
    return joined(second, "after", first)


def _after_first(
    sampler: Sampler, link: Chain, subject: NounPhrase, target: NounPhrase
) -> Sentence:
    """After the developer had tested the application, he deployed it."""
    nouns, again = (subject.noun, target.noun), Pronoun.of(sampler.draft, subject)
    pronoun = Pronoun.of(sampler.draft, target)
    first = sampler.event(link.first, nouns, subject, target, "pluperfect")
    second = sampler.event(link.second, nouns, again, pronoun, "past")
    return joined_in_front(second, "after", first)


def _before(sampler: Sampler, link: Chain, subject: NounPhrase, target: NounPhrase) -> Sentence:
    """The developer tested the application before he deployed it."""
    nouns, again = (subject.noun, target.noun), Pronoun.of(sampler.draft, subject)
    pronoun = Pronoun.of(sampler.draft, target)
    first = sampler.event(link.first, nouns, subject, target, "past")
    second = sampler.event(link.second, nouns, again, pronoun, "past")
    return joined(first, "before", second)


def _and(sampler: Sampler, link: Chain, subject: NounPhrase, target: NounPhrase) -> Sentence:
    """The developer tested the application and deployed it."""
    nouns, pronoun = (subject.noun, target.noun), Pronoun.of(sampler.draft, target)
    first = sampler.event(link.first, nouns, subject, target, "past")
    second = sampler.event(link.second, nouns, Elided(subject), pronoun, "past")
    return coordinated(first, second)


def _prepared(sampler: Sampler, link: Chain, subject: NounPhrase, target: NounPhrase) -> Sentence:
    """The developer deployed the application because the engineer had tested it."""
    helper, other = _helper(sampler, link, subject)
    pronoun = Pronoun.of(sampler.draft, target)
    first = sampler.event(link.first, (helper, target.noun), other, pronoun, "pluperfect")
    second = sampler.event(link.second, (subject.noun, target.noun), subject, target, "past")
    return joined(second, "because", first)


def _which(sampler: Sampler, link: Chain, subject: NounPhrase, target: NounPhrase) -> Sentence:
    """The developer deployed the application that the engineer had tested."""
    helper, other = _helper(sampler, link, subject)
    pronoun = RelativePronoun(sampler.draft, target)
    inner = sampler.event(link.first, (helper, target.noun), other, pronoun, "pluperfect")
    main = sampler.event(link.second, (subject.noun, target.noun), subject, target, "past")
    main.extraposed = RelativeClause(inner)
    return main.english(), main.german_main()


def _helper(sampler: Sampler, link: Chain, subject: NounPhrase) -> tuple[Noun, NounPhrase]:
    noun = sampler.dice.pick(link.helpers)
    if noun == subject.noun:
        raise GiveUp
    return noun, sampler.phrase(noun, plural=False, definite=True, adjectives=0.1)


_SHAPES: Weighted[_Shape] = Weighted({_after: 4, _after_first: 4, _before: 3, _and: 4, _which: 3})
