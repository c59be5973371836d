"""Which tokeniser a target text gets, and which signs of a mistake are spoken of."""

from __future__ import annotations

import importlib.util

import pytest

from seq2seq.scored_text import choose_tokenizer, signs_of_mistakes

TEXT = {
    "de": "Der Hund läuft im Park.",
    "zh": "我喜欢在公园里散步。",
    "ja": "私は公園を散歩するのが好きです。",
    "ko": "나는 공원에서 산책하는 것을 좋아한다.",
    "th": "ฉันชอบเดินเล่นในสวนสาธารณะ",
    "lo": "ຂ້ອຍມັກຍ່າງຫຼິ້ນ",
    "km": "ខ្ញុំចូលចិត្តដើរលេង",
    "my": "ကျွန်တော်လမ်းလျှောက်ရတာကြိုက်တယ်",
    "bo": "ང་ལ་གོམ་པ་རྒྱག་རྒྱུ་དགའ་པོ་ཡོད།",
    "ar": "أحب المشي في الحديقة.",
    "hi": "मुझे पार्क में टहलना पसंद है।",
    "ru": "Я люблю гулять в парке.",
}


@pytest.fixture(params=[True, False], ids=["mecab", "no mecab"])
def mecab(request, monkeypatch):
    """Whether MeCab and its dictionaries seem to be installed."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: request.param or None)
    return request.param


@pytest.mark.parametrize("code", TEXT)
def test_the_code_and_the_text_agree_on_the_tokeniser(code, mecab):
    expected = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"} | dict.fromkeys(
        ["th", "lo", "km", "my", "bo"], "char"
    )
    choice = choose_tokenizer("auto", code, [[TEXT[code]]])
    if code in ("ja", "ko") and not mecab:
        assert choice.tokenizer == "char"
        assert "seq2seq-attention[cjk]" in choice.notes[0]
        assert len(choice.notes) == 1
    else:
        assert choice.tokenizer == expected.get(code, "13a")
        assert choice.notes == []
    # The text alone, under a code that says nothing, leads to the same.
    unknown = choose_tokenizer("auto", "tgt", [[TEXT[code]]])
    assert unknown.tokenizer == choice.tokenizer


@pytest.mark.parametrize("code", ["zh", "ZH-cn", "zh_Hant", "zho_Hans", "cmn", "yue", " zh "])
def test_spellings_of_a_code(code):
    assert choose_tokenizer("auto", code, [[TEXT["zh"]]]).notes == []
    # No letter contradicts the code: it is believed.
    assert choose_tokenizer("auto", code, [["1984"]]).tokenizer == "zh"


@pytest.mark.parametrize(
    ("code", "text", "tokenizer"),
    [("de", "zh", "zh"), ("th", "de", "13a"), ("zh", "de", "13a"), ("en", "th", "char")],
)
def test_a_wrong_code_gives_way_to_the_text_with_a_note(code, text, tokenizer):
    choice = choose_tokenizer("auto", code, [[TEXT[text]]])
    assert choice.tokenizer == tokenizer
    assert f"'{code}'" in choice.notes[0]
    assert tokenizer in choice.notes[0]


def test_japanese_under_the_code_for_chinese_and_kanji_alone(mecab):
    japanese = "ja-mecab" if mecab else "char"
    assert choose_tokenizer("auto", "zh", [[TEXT["ja"]]]).tokenizer == japanese
    assert choose_tokenizer("auto", "ja", [["東京都"]]).tokenizer == japanese
    assert choose_tokenizer("auto", "zh", [["東京都"]]).tokenizer == "zh"


def test_terms_in_latin_letters_do_not_hide_the_script():
    mixed = ["在 Linux 上安装 PyTorch 请运行命令", "打开 GitHub 页面"]
    assert choose_tokenizer("auto", "zh", [mixed]).tokenizer == "zh"
    assert choose_tokenizer("auto", "", [mixed]).tokenizer == "zh"
    one_word = ["Das Zeichen 猫 bedeutet Katze und steht im Wörterbuch."]
    assert choose_tokenizer("auto", "de", [one_word]).tokenizer == "13a"
    assert choose_tokenizer("auto", "de", [one_word]).notes == []


def test_every_reference_file_counts():
    assert choose_tokenizer("auto", "de", [["猫"], [TEXT["de"] * 9]]).tokenizer == "13a"


@pytest.mark.parametrize("asked", ["13a", "intl", "none"])
@pytest.mark.parametrize("code", ["zh", "ja", "th", "my"])
def test_asked_for_tokeniser_is_used_with_a_warning_where_it_finds_no_words(asked, code):
    for lang in (code, "en"):
        choice = choose_tokenizer(asked, lang, [[TEXT[code]]])
        assert choice.tokenizer == asked
        assert "tokenize=auto" in choice.notes[0]


@pytest.mark.parametrize(("asked", "code"), [("char", "zh"), ("zh", "zh"), ("13a", "de")])
def test_asked_for_tokeniser_that_fits_needs_no_warning(asked, code):
    assert choose_tokenizer(asked, code, [[TEXT[code]]]).notes == []


@pytest.mark.parametrize(
    ("hyps", "refs", "said"),
    [
        (["▁Der ▁Hund", "gut"], ["Der Hund", "gut"], "1 of 2 hypotheses hold subword marks"),
        (["Hun@@ de", "be@@"], ["Hunde", "be"], "2 of 2 hypotheses hold subword marks"),
        (["Hund"], ["Hun@@ d"], "1 of 1 reference lines hold subword marks"),
        (["ein <unk> Hund"], ["ein alter Hund"], "1 of 1 hypotheses hold marks of unknown"),
        (["ein ⁇ Hund"], ["ein alter Hund"], "1 of 1 hypotheses hold marks of unknown"),
        (["ein Hund"], ["ein <<unk>> Hund"], "1 of 1 reference lines hold marks of unknown"),
        (["Der Hund .", "Gut ."], ["Der Hund.", "Gut."], "2 of 2 hypotheses look tokenised"),
        (["it &apos;s"], ["it's"], "1 of 1 hypotheses look tokenised"),
        (["Der Hund."], ["Der Hund ."], "1 of 1 reference lines look tokenised"),
        (["", " ", "a"], ["a", "b", "c"], "2 of 3 hypotheses are empty"),
        (["a"], ["\u00a0"], "1 of 1 reference lines are empty"),
    ],
)
def test_signs(hyps, refs, said):
    notes = signs_of_mistakes(hyps, [refs])
    assert len(notes) == 1
    assert notes[0].startswith(said)


@pytest.mark.parametrize(
    "line",
    [
        "Schreib an a@@b.de oder @user.",
        "Wirklich ? Oui !",  # French spacing
        "Es kostet 3,5 Euro, d. h. viel.",
        "x < y und <b>fett</b>",
        "AT&T",
    ],
)
def test_ordinary_text_has_no_signs(line):
    assert signs_of_mistakes([line], [[line]]) == []


def test_a_few_spaced_marks_are_no_tokenised_text():
    lines = ["Der Hund .", "Der Hund.", "Der Hund."]
    assert signs_of_mistakes(lines, [lines]) == []
