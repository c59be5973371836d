"""Sentence patterns in which the meaning of a predicate decides what a pronoun means."""

from __future__ import annotations

from seq2seq.data.grammar_clauses import Clause, Sentence, joined, joined_in_front
from seq2seq.data.grammar_lexicon import Frame, Noun, Reason
from seq2seq.data.grammar_phrases import NounPhrase, Phrase
from seq2seq.data.grammar_pronouns import Pronoun
from seq2seq.data.grammar_sampling import GiveUp, Sampler, Weighted

_TENSES = Weighted({"past": 78, "present": 8, "future": 7, "must": 7})
_CONDITION_TENSES = Weighted({"present": 5, "future": 3, "must": 2})


def because(sampler: Sampler) -> Sentence:
    """The database rejected the request because it was too long."""
    frame, reason, negated = _drawn(sampler)
    tense = _tense(sampler, frame, negated)
    subject, target, nouns = _participants(sampler, frame, reason, negated)
    main = sampler.event(frame, nouns, subject, target, tense, negated=negated)
    meant = _meant(reason, subject, target)
    clause = _statement(sampler, Pronoun.of(sampler.draft, meant), meant.noun, reason, main, frame)
    return joined(main, _conjunction(reason, negated), clause)


def because_of(
    sampler: Sampler, frame: Frame, nouns: tuple[Noun, Noun], reason: Reason
) -> Sentence:
    """The plain sentence of a reason, in which nothing is left to chance."""
    sampler.restart()
    subject, target = (NounPhrase(sampler.draft, noun) for noun in nouns)
    main = sampler.event(frame, nouns, subject, target, "past")
    meant = _meant(reason, subject, target)
    clause = sampler.statement(
        Pronoun.of(sampler.draft, meant),
        meant.noun,
        reason.property,
        past=True,
        degree="too" if frame.negated else "",
    )
    return joined(main, _conjunction(reason, frame.negated), clause)


def fronted(sampler: Sampler) -> Sentence:
    """Because the application was ready, the developer deployed it."""
    frame, reason, negated = _drawn(sampler)
    if frame.preposition and reason.role == "object":
        raise GiveUp
    subject, target, nouns = _participants(sampler, frame, reason, negated, definite=True)
    meant = _meant(reason, subject, target)
    pronoun = Pronoun.of(sampler.draft, meant)
    parts: tuple[Phrase, Phrase | None] = (
        (pronoun, target) if meant is subject else (subject, pronoun)
    )
    main = sampler.event(frame, nouns, *parts, "past", negated=negated)
    clause = _statement(sampler, meant, meant.noun, reason, main, frame)
    return joined_in_front(main, _conjunction(reason, negated), clause)


def condition(sampler: Sampler) -> Sentence:
    """The engineer restarts the server if it is slow."""
    frame, reason, negated = _drawn(sampler)
    adjective = sampler.lexicon.adjectives.get(reason.property.name)
    lasting = adjective is not None and "state" not in adjective.tags
    whim = reason.role == "subject" and frame.subjects[0].personal
    if negated or lasting or whim or not reason.supports or "future" not in frame.tenses:
        raise GiveUp
    tense = sampler.dice.draw(_CONDITION_TENSES)
    if not _possible(frame, tense):
        tense = "future"
    subject, target, nouns = _participants(sampler, frame, reason, False)
    main = sampler.event(frame, nouns, subject, target, tense)
    meant = _meant(reason, subject, target)
    clause = _statement(sampler, Pronoun.of(sampler.draft, meant), meant.noun, reason, main, frame)
    return joined(main, "if", clause)


def breakdown(sampler: Sampler) -> Sentence:
    """When the server crashed, the engineer restarted it."""
    frame, reason = sampler.dice.pick(sampler.lexicon.breakdowns)
    thing, actor = sampler.dice.pick(reason.antecedents), sampler.dice.pick(frame.subjects)
    target = sampler.phrase(thing, definite=True)
    verb = sampler.lexicon.verbs[reason.property.name]
    sampler.admit(thing.name, "subject", verb.word)
    event = Clause(
        draft=sampler.draft,
        subject=target,
        verb=verb,
        tense="past" if reason.property.kind == "done" else "stopped",
    )
    pronoun = Pronoun.of(sampler.draft, target)
    subject = sampler.phrase(actor, definite=True)
    main = sampler.event(frame, (actor, thing), subject, pronoun, "past")
    return joined_in_front(main, "when", event)


def _drawn(sampler: Sampler) -> tuple[Frame, Reason, bool]:
    """A frame, a reason, and whether the deed is denied."""
    frame = sampler.dice.pick(sampler.lexicon.reasoned)
    reason = sampler.dice.pick(frame.reasons)
    deniable = frame.deniable and not reason.supports
    negated = frame.negated or (deniable and sampler.dice.chance(0.5))
    return frame, reason, negated


def _conjunction(reason: Reason, negated: bool) -> str:
    """What speaks for a deed explains it; what speaks against it explains why it was not done."""
    return "because" if reason.supports or negated else "although"


def _tense(sampler: Sampler, frame: Frame, negated: bool) -> str:
    tense = sampler.dice.draw(_TENSES)
    if (negated and tense in ("must", "present")) or not _possible(frame, tense):
        return "past"
    return tense


def _possible(frame: Frame, tense: str) -> bool:
    return frame.habitual if tense == "present" else tense in frame.tenses


def _participants(
    sampler: Sampler, frame: Frame, reason: Reason, negated: bool, *, definite: bool = False
) -> tuple[NounPhrase, NounPhrase | None, tuple[Noun, Noun | None]]:
    """Subject and object of which the pronoun can mean only one."""
    dice, said = sampler.dice, reason.property.name
    definite = definite or negated
    meant = dice.pick(reason.antecedents)
    if not frame.objects:
        return sampler.phrase(meant, said=said, definite=definite), None, (meant, None)
    other = dice.pick(reason.others)
    of_subject = reason.role == "subject"
    actor, thing = (meant, other) if of_subject else (other, meant)
    rivals = actor.pronoun == thing.pronoun
    if actor == thing or (rivals and actor.personal):
        raise GiveUp
    number = None if dice.chance(0.4) else False  # at most one of the two is plural
    subject = sampler.phrase(
        actor,
        said=said if of_subject else "",
        definite=definite,
        plural=None if number is None and dice.chance(0.5) else False,
    )
    target = sampler.phrase(
        thing,
        owner=subject if of_subject or not definite else None,  # no "his" before "the man"
        said="" if of_subject else said,
        definite=definite or frame.definite or frame.preposition is not None,
        plural=False if subject.plural else number,
    )
    return subject, target, (actor, thing)


def _meant(reason: Reason, subject: NounPhrase, target: NounPhrase | None) -> NounPhrase:
    return subject if reason.role == "subject" or target is None else target


def _statement(
    sampler: Sampler, subject: Phrase, noun: Noun, reason: Reason, main: Clause, frame: Frame
) -> Clause:
    too = reason.supports or main.negated
    if reason.property.kind == "not" and main.tense != "past":  # "do not" is not in the lexicon
        raise GiveUp
    degree = "too" if frame.negated else sampler.degree(reason.property, too=too)
    return sampler.statement(
        subject, noun, reason.property, past=main.tense == "past", degree=degree
    )
