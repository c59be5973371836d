"""Sentence patterns of one clause, relative clauses and reported facts; the table of all patterns.

A pattern is a function that draws a whole sentence from a sampler, or gives up.
"""

from __future__ import annotations

from collections.abc import Callable

from seq2seq.data import grammar_chains as chains
from seq2seq.data import grammar_reasons as reasons
from seq2seq.data.grammar_clauses import Clause, Sentence, joined, joined_in_front
from seq2seq.data.grammar_lexicon import Frame, Noun
from seq2seq.data.grammar_phrases import Coordination, NounPhrase, Phrase, Prepositional
from seq2seq.data.grammar_pronouns import Pronoun, RelativeClause, RelativePronoun
from seq2seq.data.grammar_sampling import GiveUp, Sampler, Weighted

_QUESTION_TENSES = ("perfect", "can", "must")
_NEGATABLE = ("past", "perfect", "future")
_ADVERBS = {"must": "modal", "should": "modal"}
_SPEAKING = ("know", "say", "notice", "believe")


def plain(sampler: Sampler) -> Sentence:
    """Yesterday the developer tested the new application."""
    clause = event(sampler, sampler.dice.pick(sampler.lexicon.frames))
    return clause.english(), clause.german_main()


def habit(sampler: Sampler) -> Sentence:
    """Every day the farmer feeds the horse."""
    frame = sampler.dice.pick(sampler.lexicon.habits)
    clause = event(sampler, frame, "present")
    clause.manner = None
    clause.time = clause.time or sampler.adverb("present")
    clause.time_first = True
    return clause.english(), clause.german_main()


def question(sampler: Sampler) -> Sentence:
    """Has the developer tested the application?"""
    frame = sampler.dice.pick(sampler.lexicon.frames)
    tense = sampler.dice.pick(_QUESTION_TENSES)
    if frame.negated or tense not in frame.tenses:
        raise GiveUp
    if tense != "perfect" and not frame.subjects[0].personal:
        raise GiveUp
    clause = event(sampler, frame, tense)
    if clause.negated:
        raise GiveUp
    clause.time_first = False
    return clause.english(inverted=True), clause.german_inverted()


def giving(sampler: Sampler) -> Sentence:
    """The teacher gave the student a book."""
    clause = event(sampler, sampler.dice.pick(sampler.lexicon.gifts))
    return clause.english(), clause.german_main()


def event(sampler: Sampler, frame: Frame, tense: str = "") -> Clause:
    """A frame with everything drawn; without a tense any that suits."""
    dice = sampler.dice
    tense = tense or sampler.tense(frame)
    deniable = frame.deniable and not frame.recipients and tense in _NEGATABLE
    negated = frame.negated or (deniable and dice.chance(0.08))
    actor: Noun | None = dice.pick(frame.subjects)
    thing = dice.pick(frame.objects) if frame.objects else None
    if actor is None or actor == thing:
        raise GiveUp
    subject = sampler.subject(actor, definite=negated or tense == "present")
    if not isinstance(subject, NounPhrase):
        actor = None
    target: Phrase | None = None
    if thing and tense == "present":  # every day the same one
        target = NounPhrase(sampler.draft, thing)
    elif thing:
        target = _object(sampler, frame, thing, subject, negated)
    if isinstance(target, Pronoun):
        thing = None
    clause = sampler.event(frame, (actor, thing), subject, target, tense, negated=negated)
    if frame.recipients:
        recipient = dice.pick(frame.recipients)
        if recipient == actor:
            raise GiveUp
        clause.indirect = sampler.phrase(recipient, adjectives=0.1, definite=True)
    elif not negated:
        _furnish(sampler, clause, frame)
    if not negated and not clause.manner and dice.chance(0.35):
        _set_time(sampler, clause, actor)
    return clause


def _object(sampler: Sampler, frame: Frame, thing: Noun, subject: Phrase, negated: bool) -> Phrase:
    if thing.personal and not frame.preposition and sampler.dice.chance(0.3):
        return Pronoun(sampler.draft, sampler.dice.pick(("he", "she", "they")))
    definite = negated or frame.definite or frame.preposition is not None
    if frame.seen and sampler.dice.chance(0.4):
        adjective = sampler.dice.pick(sampler.lexicon.described[thing.name])
        determiner = "the" if definite or "mass" in thing.tags else sampler.dice.pick(("the", "a"))
        return NounPhrase(sampler.draft, thing, determiner, adjective=adjective)
    owner = None if frame.preposition or frame.recipients else subject
    return sampler.phrase(thing, owner=owner, definite=definite)


def _furnish(sampler: Sampler, clause: Clause, frame: Frame) -> None:
    """Sometimes a manner or a place."""
    roll = sampler.dice.random()
    if roll < 0.2 and frame.manner:
        clause.manner = sampler.adverb(sampler.dice.pick(frame.manner))
    elif roll < 0.45 and frame.places and not clause.place:
        clause.place = sampler.place(sampler.dice.pick(frame.places))


def _set_time(sampler: Sampler, clause: Clause, actor: Noun | None) -> None:
    dice, words = sampler.dice, sampler.lexicon
    events = words.events.get(actor.name, ()) if actor else ()
    if clause.tense == "past" and events and dice.chance(0.3):
        phrase = NounPhrase(sampler.draft, words.nouns[dice.pick(events)])
        clause.time = Prepositional(words.prepositions["after"], phrase)
        clause.time_first = True
        return
    clause.time = sampler.adverb(_ADVERBS.get(clause.tense, clause.tense))
    if clause.time:
        opening = " ".join(token.text for token in clause.time.english())
        clause.time_first = opening in words.adverbs["front"] or dice.chance(0.6)


def copular(sampler: Sampler) -> Sentence:
    """The old bridge is very narrow."""
    dice, words = sampler.dice, sampler.lexicon
    noun = dice.pick(words.describable)
    adjective = dice.pick(words.described[noun.name])
    nouns: tuple[Noun, ...] = (noun,)
    if dice.chance(0.15):
        other = dice.pick(adjective.nouns)
        if other == noun or other.kind != noun.kind:
            raise GiveUp
        first, second = (NounPhrase(sampler.draft, each) for each in (noun, other))
        subject: Phrase = Coordination(first, second)
        nouns = (noun, other)
    else:
        subject = _located(sampler, sampler.phrase(noun, said=adjective.name, definite=True))
    tenses = ("past", "past", "present", "present", "future")
    clause = sampler.copula(
        subject,
        nouns,
        adjective,
        tense=dice.pick(tenses if "state" in adjective.tags else tenses[1:3]),
        degree="very" if "degree" in adjective.tags and dice.chance(0.2) else "",
        negated=dice.chance(0.1),
    )
    return clause.english(), clause.german_main()


def _located(sampler: Sampler, phrase: NounPhrase) -> NounPhrase:
    """The same phrase, sometimes with a place behind its noun: the key on the table."""
    places = sampler.lexicon.located.get(phrase.noun.name)
    if places and sampler.dice.chance(0.15):
        phrase.after = sampler.place(sampler.dice.pick(places))
    return phrase


def whereabouts(sampler: Sampler) -> Sentence:
    """The key was under the table."""
    noun = sampler.dice.pick(sampler.lexicon.locatable)
    clause = Clause(
        draft=sampler.draft,
        subject=sampler.phrase(noun, definite=True),
        tense=sampler.dice.pick(("past", "present")),
        negated=sampler.dice.chance(0.15),
        place=sampler.place(sampler.dice.pick(sampler.lexicon.located[noun.name])),
    )
    return clause.english(), clause.german_main()


def passive(sampler: Sampler) -> Sentence:
    """The roof was destroyed by the storm."""
    frame = sampler.dice.pick(sampler.lexicon.passives)
    actor, thing = sampler.dice.pick(frame.subjects), sampler.dice.pick(frame.objects)
    agent = sampler.phrase(actor, adjectives=0.1, definite=True)
    subject = sampler.phrase(thing, definite=True)
    clause = sampler.event(frame, (actor, thing), subject, None, "passive")
    clause.place = Prepositional(sampler.lexicon.prepositions["by"], agent)
    return clause.english(), clause.german_main()


def relative(sampler: Sampler) -> Sentence:
    """The developer who had tested the application was tired."""
    frame = sampler.dice.pick(sampler.lexicon.frames)
    if not frame.objects:  # "the machine that worked"
        raise GiveUp
    actor = sampler.dice.pick(frame.subjects)
    plural = bool(actor.plural) and sampler.dice.chance(0.2)
    phrase = NounPhrase(sampler.draft, actor, plural=plural)
    pronoun = RelativePronoun(sampler.draft, phrase)
    tense = sampler.dice.pick(("past", "pluperfect"))
    phrase.after = RelativeClause(_bare_event(sampler, frame, actor, pronoun, tense))
    adjective = sampler.dice.pick(sampler.lexicon.moods[actor.name])
    main = sampler.copula(phrase, (actor,), adjective)
    return main.english(), main.german_main()


def _bare_event(sampler: Sampler, frame: Frame, actor: Noun, subject: Phrase, tense: str) -> Clause:
    """A frame with its object and nothing else."""
    thing = sampler.dice.pick(frame.objects) if frame.objects else None
    if thing == actor or frame.recipients or frame.negated:
        raise GiveUp
    target = None
    if thing:
        definite = frame.definite or frame.preposition is not None
        owner = subject if isinstance(subject, NounPhrase) and not frame.preposition else None
        target = sampler.phrase(thing, owner=owner, definite=definite)
    return sampler.event(frame, (actor, thing), subject, target, tense)


def reported(sampler: Sampler) -> Sentence:
    """The engineer knew that the server was slow."""
    dice, words = sampler.dice, sampler.lexicon
    speaker = dice.pick(words.speakers)
    verb = words.verbs[dice.pick(_SPEAKING)]
    subject = sampler.subject(speaker)
    if isinstance(subject, NounPhrase):
        sampler.admit(speaker.name, "subject", verb.word)
    main = Clause(draft=sampler.draft, subject=subject, verb=verb)
    if dice.chance(0.5):
        noun = dice.pick(words.describable)
        if noun == speaker:
            raise GiveUp
        adjective = dice.pick(words.described[noun.name])
        phrase = sampler.phrase(noun, said=adjective.name, definite=True)
        return joined(main, "that", sampler.copula(phrase, (noun,), adjective))
    frame = dice.pick(words.frames)
    actor = dice.pick(frame.subjects)
    if actor == speaker:
        raise GiveUp
    phrase = sampler.phrase(actor, definite=True)
    content = _bare_event(sampler, frame, actor, phrase, "pluperfect")
    return joined(main, "that", content)


def meanwhile(sampler: Sampler) -> Sentence:
    """While the mother read the newspaper, the father cooked the soup."""
    frames = [sampler.dice.pick(sampler.lexicon.pastimes) for _ in range(2)]
    actors = [sampler.dice.pick(frame.subjects) for frame in frames]
    if frames[0].verb == frames[1].verb or actors[0] == actors[1]:
        raise GiveUp
    first, second = (
        _bare_event(sampler, frame, actor, sampler.phrase(actor, definite=True), "past")
        for frame, actor in zip(frames, actors, strict=True)
    )
    join = joined_in_front if sampler.dice.chance(0.5) else joined
    return join(first, "while", second)


Pattern = Callable[[Sampler], Sentence]
PATTERNS: Weighted[Pattern] = Weighted(
    {
        plain: 26,
        habit: 4,
        question: 3,
        giving: 3,
        copular: 10,
        whereabouts: 2,
        passive: 4,
        relative: 5,
        reported: 5,
        meanwhile: 2,
        reasons.because: 26,
        reasons.fronted: 6,
        reasons.condition: 4,
        reasons.breakdown: 2,
        chains.chain: 13,
        chains.provoked: 5,
    }
)


def compose(sampler: Sampler) -> tuple[Sentence, str]:
    """Draw a whole sentence and its final mark; the sampler's draft holds the links.

    Raises:
        GiveUp: the words drawn do not go together; draw again.
    """
    sampler.restart()
    pattern = sampler.dice.draw(PATTERNS)
    return pattern(sampler), "?" if pattern is question else "."
