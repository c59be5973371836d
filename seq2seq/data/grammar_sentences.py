"""The sentence patterns of the embedded grammar."""

from __future__ import annotations

from collections.abc import Callable

from seq2seq.data.grammar_clauses import Clause
from seq2seq.data.grammar_lexicon import Chain, Frame, Lexicon, Noun, Reason
from seq2seq.data.grammar_phrases import (
    Adverb,
    Coordination,
    Elided,
    NounPhrase,
    Phrase,
    Predicative,
    PrepositionalPhrase,
    Pronoun,
    RelativeClause,
    RelativePronoun,
    Token,
)
from seq2seq.data.grammar_sampling import Dice, GiveUp, Sampler

CONJUNCTIONS = {
    "because": "weil",
    "although": "obwohl",
    "if": "wenn",
    "after": "nachdem",
    "before": "bevor",
    "while": "während",
    "that": "dass",
}
Sentence = tuple[list[Token], list[Token]]  # English and German words, without the final mark

_PATTERNS = {
    "plain": 26,
    "because": 26,
    "fronted": 6,
    "condition": 4,
    "chain": 13,
    "broken_down": 2,
    "copular": 9,
    "whereabouts": 2,
    "reported": 5,
    "relative": 6,
    "meanwhile": 2,
    "passive": 4,
    "question": 3,
}


class Composer(Sampler):
    """Composes whole sentences: `compose` picks a pattern by weight and fills it."""

    def __init__(self, words: Lexicon, dice: Dice, admit: Callable[[str, str, str], None]) -> None:
        super().__init__(words, dice, admit)
        self.reasoned = [frame for frame in words.frames if frame.reasons]
        self.passives = [f for f in words.frames if f.verb.name in words.passive]
        self.repairable = [
            (frame, reason)
            for frame in words.frames
            for reason in frame.reasons
            if reason.role == "object" and reason.property.kind in ("done", "stopped")
        ]

    def compose(self) -> tuple[list[Token], list[Token], str]:
        """English words, German words and the final mark; the draft holds the links.

        Raises:
            GiveUp: the words drawn do not go together; draw again.
        """
        self.draft = type(self.draft)(self.admit)
        pattern = self.dice.weighted(_PATTERNS)
        source, target = getattr(self, "_" + pattern)()
        return source, target, "?" if pattern == "question" else "."

    # -- one clause ----------------------------------------------------------------------------

    def _plain(self) -> Sentence:
        clause = self._event(self.dice.pick(self.lexicon.frames))
        self._adorn(clause)
        return clause.english(), clause.german_main()

    def _question(self) -> Sentence:
        frame = self.dice.pick(self.lexicon.frames)
        clause = self._event(frame, self.dice.pick(("perfect", "can", "must")))
        return clause.english(inverted=True), clause.german_inverted()

    def _event(self, frame: Frame, tense: str = "", *, subject: Phrase | None = None) -> Clause:
        """A frame with everything drawn; without a tense any that suits."""
        dice = self.dice
        if tense and frame.only and tense not in frame.only:
            raise GiveUp
        tense = tense or self.tense(frame)
        negated = frame.negated or (
            not frame.recipients and tense in ("past", "perfect", "future") and dice.chance(0.08)
        )
        actor: Noun | None = dice.pick(frame.subjects)
        if subject is None:
            subject = self.subject(actor, plain=negated) if actor else None
        if not isinstance(subject, NounPhrase):
            actor = None
        thing = dice.pick(frame.objects) if frame.objects else None
        if subject is None or (thing and actor == thing):
            raise GiveUp
        target = self._object(frame, thing, subject, negated) if thing else None
        clause = self.event(frame, subject, target, tense, nouns=(actor, thing), negated=negated)
        if frame.recipients:
            recipient = dice.pick(frame.recipients)
            if recipient == actor:
                raise GiveUp
            clause.indirect = self.phrase(recipient, owner=None, adjectives=0.1)
        elif not negated:
            self._furnish(clause, frame)
        return clause

    def _object(self, frame: Frame, thing: Noun, subject: Phrase, negated: bool) -> NounPhrase:
        if frame.preposition:  # "at the station": a place is mostly definite
            return self.phrase(thing, plain=True, adjectives=0.15)
        if frame.seen and self.dice.chance(0.4):
            adjective = self.dice.pick(self.described[thing.name])
            if "predicate" not in adjective.tags:
                determiner = "the" if negated else self.dice.pick(("the", "a"))
                return NounPhrase(self.draft, thing, determiner, adjective=adjective)
        phrase = self.phrase(thing, owner=subject, plain=negated)
        return phrase

    def _furnish(self, clause: Clause, frame: Frame) -> None:
        roll = self.dice.random()
        if roll < 0.2 and frame.manner:
            manner = self.dice.pick(frame.manner)
            entries = self.lexicon.adverbs["manner"]
            clause.manner = Adverb(next(e for e in entries if e.startswith(manner)))
        elif roll < 0.45 and frame.places and not clause.places:
            clause.places = (self.place(self.dice.pick(frame.places)),)

    def _adorn(self, clause: Clause) -> None:
        """Sometimes a time adverb, in front or at the end."""
        if clause.manner or clause.negated or not self.dice.chance(0.35):
            return
        if clause.tense == "past" and self.dice.chance(0.25):
            event = self.dice.pick(("meeting", "meal", "lesson"))
            phrase = NounPhrase(self.draft, self.lexicon.nouns[event])
            clause.time = PrepositionalPhrase(self.lexicon.prepositions["after"], phrase)
            clause.time_first = True
            return
        clause.time = self.adverb(clause.tense)
        if isinstance(clause.time, Adverb):
            first = " ".join(token.text for token in clause.time.words)
            clause.time_first = first in self.lexicon.adverbs["front"] or self.dice.chance(0.6)

    def _copular(self) -> Sentence:
        noun = self.dice.pick(tuple(self.lexicon.nouns.values()))
        return self._description(noun)

    def _description(self, noun: Noun) -> Sentence:
        dice = self.dice
        described = self.described[noun.name]
        if not described:
            raise GiveUp
        adjective = dice.pick(described)
        subject: Phrase = self.located(self.phrase(noun, said=adjective.name), 0.15)
        if dice.chance(0.15):
            classes = [n for n in self.lexicon.nouns.values() if n.name in adjective.of]
            other = dice.pick(classes)
            alike = other.personal == noun.personal and other.pronoun and noun.pronoun
            if other == noun or not alike or (isinstance(subject, NounPhrase) and subject.after):
                raise GiveUp
            second = NounPhrase(self.draft, other)
            self.admit(other.name, "is", adjective.name)
            subject = Coordination(NounPhrase(self.draft, noun), second)
        self.admit(noun.name, "is", adjective.name)
        degree = "very" if "degree" in adjective.tags and dice.chance(0.2) else ""
        clause = Clause(
            draft=self.draft,
            subject=subject,
            tense=dice.weighted({"past": 5, "present": 5, "future": 1})
            if "state" in adjective.tags
            else dice.pick(("past", "present")),
            negated=dice.chance(0.12),
            predicate=Predicative(adjective, degree),
        )
        return clause.english(), clause.german_main()

    def _whereabouts(self) -> Sentence:
        name = self.dice.pick(tuple(self.lexicon.located))
        phrase = self.phrase(self.lexicon.nouns[name], plain=True)
        clause = Clause(
            draft=self.draft,
            subject=phrase,
            tense=self.dice.pick(("past", "present")),
            negated=self.dice.chance(0.15),
            places=(self.place(self.dice.pick(self.lexicon.located[name])),),
        )
        return clause.english(), clause.german_main()

    def _passive(self) -> Sentence:
        frame = self.dice.pick(self.passives)
        actor, thing = self.dice.pick(frame.subjects), self.dice.pick(frame.objects)
        subject = self.phrase(thing)
        agent = self.phrase(actor, adjectives=0.1)
        self.admit(actor.name, "subject", frame.verb.name)
        self.admit(thing.name, "object", frame.verb.name)
        clause = Clause(
            draft=self.draft,
            subject=subject,
            verb=frame.verb,
            tense="passive",
            places=(PrepositionalPhrase(self.lexicon.prepositions["by"], agent),),
        )
        return clause.english(), clause.german_main()

    # -- reasons -------------------------------------------------------------------------------

    def _because(self) -> Sentence:
        frame, reason, negated, conjunction = self._reason()
        time = self.dice.weighted({"past": 70, "present": 14, "future": 8, "must": 8})
        if negated and time == "must":
            time = "past"
        if frame.only and time not in frame.only:
            time = "past"
        subject, target, nouns = self._participants(frame, reason, negated)
        main = self.event(frame, subject, target, time, nouns=nouns, negated=negated)
        meant = subject if reason.role == "subject" or target is None else target
        pronoun = Pronoun.of(self.draft, meant)
        clause = self.statement(pronoun, reason.property, meant.noun, past=time == "past")
        return _joined(main, conjunction, clause)

    def _reason(self) -> tuple[Frame, Reason, bool, str]:
        """A frame, a reason, whether the deed is denied, and because or although."""
        frame = self.dice.pick(self.reasoned)
        reason = self.dice.pick(frame.reasons)
        if not reason.antecedents or (frame.objects and not reason.others):
            raise GiveUp
        if reason.supports:
            return frame, reason, frame.negated, "because"
        negated = self.dice.chance(0.5)
        return frame, reason, negated, "because" if negated else "although"

    def _participants(
        self, frame: Frame, reason: Reason, negated: bool
    ) -> tuple[NounPhrase, NounPhrase | None, tuple[Noun, Noun | None]]:
        """Subject and object of which the pronoun can mean only one."""
        dice, said = self.dice, reason.property.name
        if not frame.objects:
            noun = dice.pick(reason.antecedents)
            return self.phrase(noun, said=said), None, (noun, None)
        meant, other = dice.pick(reason.antecedents), dice.pick(reason.others)
        actor, thing = (meant, other) if reason.role == "subject" else (other, meant)
        rivals = actor.pronoun == thing.pronoun
        if actor == thing or (rivals and actor.personal):
            raise GiveUp
        several = None if dice.chance(0.3) and not actor.personal == thing.personal else False
        subject = self.phrase(
            actor,
            said=said if reason.role == "subject" else "",
            plain=negated,
            plural=several,
        )
        if subject.plural:
            several = False
        target = self.phrase(
            thing,
            said=said if reason.role == "object" else "",
            plain=negated or frame.preposition is not None,
            plural=False if subject.plural or rivals else several,
        )
        return subject, target, (actor, thing)

    def _fronted(self) -> Sentence:
        """ "Because the application was ready, the developer deployed it." """
        frame, reason, negated, conjunction = self._reason()
        if frame.preposition and reason.role == "object":
            raise GiveUp
        subject, target, nouns = self._participants(frame, reason, negated)
        by_subject = reason.role == "subject" or target is None
        meant = subject if by_subject else target
        if meant is None:
            raise GiveUp
        clause = self.statement(meant, reason.property, meant.noun, past=True)
        pronoun = Pronoun.of(self.draft, meant)
        actor: Phrase = pronoun if by_subject else subject
        thing: Phrase | None = target if by_subject else pronoun
        main = self.event(frame, actor, thing, "past", nouns=nouns, negated=negated)
        return _joined_in_front(main, conjunction, clause)

    def _condition(self) -> Sentence:
        """ "The engineer restarts the server if it is slow." """
        frame, reason, negated, _ = self._reason()
        said = reason.property
        adjective = self.lexicon.adjectives.get(said.name)
        if (
            negated
            or not reason.supports
            or frame.only
            or (adjective and "state" not in adjective.tags)
        ):
            raise GiveUp
        subject, target, nouns = self._participants(frame, reason, False)
        tense = self.dice.weighted({"present": 5, "future": 3, "must": 2})
        main = self.event(frame, subject, target, tense, nouns=nouns)
        meant = subject if reason.role == "subject" or target is None else target
        clause = self.statement(Pronoun.of(self.draft, meant), said, meant.noun, past=False)
        return _joined(main, "if", clause)

    def _broken_down(self) -> Sentence:
        """ "When the server crashed, the engineer restarted it." """
        frame, reason = self.dice.pick(self.repairable)
        if not reason.antecedents:
            raise GiveUp
        thing, actor = self.dice.pick(reason.antecedents), self.dice.pick(frame.subjects)
        target = self.phrase(thing)
        verb = self.lexicon.verbs[reason.property.name]
        self.admit(thing.name, "subject", verb.name)
        done = reason.property.kind == "done"
        event = Clause(
            draft=self.draft, subject=target, verb=verb, tense="past" if done else "stopped"
        )
        if not done:
            raise GiveUp
        pronoun = Pronoun.of(self.draft, target)
        subject = self.phrase(actor)
        main = self.event(frame, subject, pronoun, "past", nouns=(actor, thing))
        return _joined_in_front(main, "when", event)

    def because(
        self, frame: Frame, nouns: tuple[Noun, Noun], reason: Reason, role: str
    ) -> Sentence:
        """The plain sentence of a reason, nothing left to chance."""
        subject, target = (NounPhrase(self.draft, noun) for noun in nouns)
        main = self.event(frame, subject, target, "past", nouns=nouns)
        meant = subject if role == "subject" else target
        said = reason.property
        clause = self.statement(
            Pronoun.of(self.draft, meant),
            said,
            meant.noun,
            past=True,
            degree="too" if frame.negated else "",
        )
        return _joined(main, "because" if reason.supports else "although", clause)

    # -- two deeds -----------------------------------------------------------------------------

    def _chain(self) -> Sentence:
        chain = self.dice.pick(self.lexicon.chains)
        actor, thing = self.dice.pick(chain.subjects), self.dice.pick(chain.objects)
        subject = self.phrase(actor)
        shape = self.dice.weighted(
            {"after": 4, "after_first": 4, "before": 3, "and": 4, "because": 4, "which": 3}
        )
        if shape == "which":
            return self._which(chain, subject, actor, thing)
        target = self.phrase(thing, plural=False if subject.plural else None)
        pronoun = Pronoun.of(self.draft, target)
        nouns = (actor, thing)
        if shape == "because":
            return self._prepared(chain, subject, target, pronoun, nouns)
        if shape == "and":
            first = self.event(chain.first, subject, target, "past", nouns=nouns)
            second = self.event(chain.second, Elided(subject), pronoun, "past", nouns=nouns)
            source, german = Token("and"), Token("und")
            german.sources = (source,)
            return (
                [*first.english(), source, *second.english()],
                [*first.german_main(), german, *second.german_main()],
            )
        again = Pronoun.of(self.draft, subject)
        if shape == "after_first":
            first = self.event(chain.first, subject, target, "pluperfect", nouns=nouns)
            second = self.event(chain.second, again, pronoun, "past", nouns=nouns)
            return _joined_in_front(second, "after", first)
        if shape == "after":
            first = self.event(chain.first, again, pronoun, "pluperfect", nouns=nouns)
            second = self.event(chain.second, subject, target, "past", nouns=nouns)
            return _joined(second, "after", first)
        first = self.event(chain.first, subject, target, "past", nouns=nouns)
        second = self.event(chain.second, again, pronoun, "past", nouns=nouns)
        return _joined(first, "before", second)

    def _prepared(
        self,
        chain: Chain,
        subject: NounPhrase,
        target: NounPhrase,
        pronoun: Pronoun,
        nouns: tuple[Noun, Noun],
    ) -> Sentence:
        """ "The developer deployed the application because the engineer had tested it." """
        helper = self.dice.pick(chain.first.subjects)
        if helper == nouns[0]:
            raise GiveUp
        other = self.phrase(helper, plural=False)
        first = self.event(chain.first, other, pronoun, "pluperfect", nouns=(helper, nouns[1]))
        second = self.event(chain.second, subject, target, "past", nouns=nouns)
        return _joined(second, "because", first)

    def _which(self, chain: Chain, subject: NounPhrase, actor: Noun, thing: Noun) -> Sentence:
        """ "The developer deployed the application that the engineer had tested." """
        helper = self.dice.pick(chain.first.subjects)
        if helper == actor:
            raise GiveUp
        target = self.phrase(thing, plain=True)
        target.after = RelativeClause(
            self.event(
                chain.first,
                self.phrase(helper, adjectives=0.1),
                RelativePronoun(self.draft, target),
                self.dice.pick(("pluperfect", "past")),
                nouns=(helper, thing),
            )
        )
        main = self.event(chain.second, subject, target, "past", nouns=(actor, thing))
        return main.english(), main.german_main()

    def _relative(self) -> Sentence:
        """ "The developer who tested the application was tired." """
        frame = self.dice.pick(self.lexicon.frames)
        if frame.negated:
            raise GiveUp
        actor = self.dice.pick(frame.subjects)
        phrase = self.phrase(actor, plain=True, adjectives=0.08)
        tense = self.dice.pick(("past", "pluperfect"))
        inner = self._event_of(frame, actor, RelativePronoun(self.draft, phrase), tense)
        phrase.after = RelativeClause(inner)
        adjective = self.dice.pick(self.described[actor.name])
        if phrase.adjective and phrase.adjective.scale == adjective.scale:
            raise GiveUp
        self.admit(actor.name, "is", adjective.name)
        main = Clause(draft=self.draft, subject=phrase, predicate=Predicative(adjective))
        return main.english(), main.german_main()

    def _event_of(self, frame: Frame, actor: Noun, subject: Phrase, tense: str) -> Clause:
        thing = self.dice.pick(frame.objects) if frame.objects else None
        if thing == actor or frame.recipients:
            raise GiveUp
        target = None
        if thing:
            target = self.phrase(thing, plain=bool(frame.preposition), adjectives=0.12)
        return self.event(frame, subject, target, tense, nouns=(actor, thing))

    # -- other clauses -------------------------------------------------------------------------

    def _reported(self) -> Sentence:
        """ "The engineer knew that the server was slow." """
        dice = self.dice
        persons = [n for n in self.lexicon.nouns.values() if n.personal and n.pronoun]
        speaker = dice.pick(persons)
        verb = self.lexicon.verbs[dice.pick(("know", "say", "notice", "believe"))]
        subject = self.subject(speaker)
        main = Clause(draft=self.draft, subject=subject, verb=verb)
        if dice.chance(0.5):
            noun = dice.pick(tuple(self.lexicon.nouns.values()))
            described = self.described[noun.name]
            if not described or noun == speaker:
                raise GiveUp
            adjective = dice.pick(described)
            self.admit(noun.name, "is", adjective.name)
            content = Clause(
                draft=self.draft,
                subject=self.phrase(noun, said=adjective.name),
                predicate=Predicative(adjective),
            )
        else:
            frame = dice.pick(self.lexicon.frames)
            actor = dice.pick(frame.subjects)
            if actor == speaker or frame.negated:
                raise GiveUp
            content = self._event_of(frame, actor, self.phrase(actor), "pluperfect")
        return _joined(main, "that", content)

    def _meanwhile(self) -> Sentence:
        """ "While the mother read the newspaper, the father cooked the soup." """
        frames = [self.dice.pick(self._pastimes()) for _ in range(2)]
        actors = [self.dice.pick(frame.subjects) for frame in frames]
        if frames[0].verb == frames[1].verb or actors[0] == actors[1]:
            raise GiveUp
        first, second = (
            self._event_of(frame, actor, self.phrase(actor, plural=False), "past")
            for frame, actor in zip(frames, actors, strict=True)
        )
        if self.dice.chance(0.5):
            return _joined_in_front(first, "while", second)
        return _joined(first, "while", second)

    def _pastimes(self) -> list[Frame]:
        verbs = ("read", "write", "cook", "wash", "clean", "paint", "sleep", "work", "play", "eat")
        return [f for f in self.lexicon.frames if f.verb.name in verbs and f.subjects[0].personal]


def _conjunction(word: str, tense: str) -> tuple[Token, Token]:
    german = CONJUNCTIONS.get(word) or ("wenn" if tense == "present" else "als")
    source = Token(word)
    return source, Token(german, (source,))


def _joined(main: Clause, conjunction: str, clause: Clause) -> Sentence:
    """Main clause first."""
    source, target = _conjunction(conjunction, clause.tense)
    return (
        [*main.english(), source, *clause.english()],
        [*main.german_main(), Token(","), target, *clause.german_final()],
    )


def _joined_in_front(main: Clause, conjunction: str, clause: Clause) -> Sentence:
    """Subordinate clause first; in German the main clause then begins with its verb."""
    source, target = _conjunction(conjunction, clause.tense)
    comma = Token(",")
    return (
        [source, *clause.english(), comma, *main.english()],
        [target, *clause.german_final(), Token(",", (comma,)), *main.german_inverted()],
    )
