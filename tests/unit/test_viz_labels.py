from __future__ import annotations

import unicodedata
import warnings
from pathlib import Path

import matplotlib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.errors import UserError
from viz import labels
from viz.labels import FontWarning, clip, columns, extent, fonts, label, visible

DEJAVU = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("▁the", "▁the"),
        ("", "⟨empty⟩"),
        (" ", "⟨U+0020⟩"),
        ("\u200b", "⟨U+200B⟩"),
        ("a\u00a0b", "a⟨U+00A0⟩b"),
        ("\u0301", "⟨U+0301⟩"),  # a mark without its letter
        ("e\u0301", "e\u0301"),
        ("\u00ad", "⟨U+00AD⟩"),
        ("a\u202eb", "a⟨U+202E⟩b"),  # would turn the rest around
        ("می\u200cخواهم", "می\u200cخواهم"),  # shapes its neighbours
        ("\u200c", "⟨U+200C⟩"),
        ("\n\x00", "⟨U+000A⟩⟨U+0000⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("a b", "a b"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text, shown) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("fourteen chars", "fourteen chars"),
        ("fifteen charss!", "fifteen chars…"),
        ("彼女は彼女は彼", "彼女は彼女は彼"),  # 7 wide characters are 14 columns
        ("彼女は彼女は彼女", "彼女は彼女は…"),
        ("e\u0301" * 14, "e\u0301" * 14),
        ("e\u0301" * 15, "e\u0301" * 13 + "…"),
    ],
)
def test_clipping_counts_columns(text, shown) -> None:
    assert clip(text) == shown
    assert columns(shown) <= 14


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.text(max_size=30), st.integers(2, 20))
def test_any_label_fits_and_hides_nothing_unmarked(text, width) -> None:
    shown = clip(visible(text), width)
    assert columns(shown) <= width
    assert shown
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert shown == visible(text) or shown.endswith("…")


def test_a_pair_of_tokens_is_clipped_one_by_one() -> None:
    pair = label(("▁Entwickler", "▁Donaudampfschiff"), True)
    assert pair.shown == "▁Entwickl… → ▁Donaudam…"
    assert pair.full == "▁Entwickler → ▁Donaudampfschiff"
    assert pair.special


@pytest.fixture
def only_dejavu(monkeypatch):
    """As on a machine without fonts for other scripts."""
    labels._families.cache_clear()
    monkeypatch.setattr(labels, "_installed", lambda: [])
    yield
    labels._families.cache_clear()


def test_missing_glyphs_give_one_message_and_numbers(only_dejavu) -> None:
    with pytest.warns(FontWarning) as caught:
        families, missing = fonts(["彼女", "कि", "ready", "彼"])
    (message,) = (str(warning.message) for warning in caught)
    assert "彼" in message
    assert "CJK" in message
    assert "DEVANAGARI" in message
    assert "fonts-noto-cjk" in message
    assert families == ["DejaVu Sans"]
    assert label(("a彼",), False, missing).shown == "a⟨U+5F7C⟩"


@pytest.mark.parametrize(
    "text", ["Größe ±½", "привет", "γλώσσα", "שלום", "مرحبا", "▁⟨U+200B⟩ … → ↓ ·"]
)
def test_the_built_in_font_has_european_and_semitic_scripts(text, only_dejavu) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fonts([text]) == (["DejaVu Sans"], "")


def test_an_installed_font_with_the_glyph_is_found(monkeypatch) -> None:
    mathematical = DEJAVU.with_name("STIXGeneral.ttf")
    labels._families.cache_clear()
    monkeypatch.setattr(labels, "_installed", lambda: [("STIXGeneral", str(mathematical))])
    character = next(
        chr(code)
        for code in sorted(labels._coverage(str(mathematical)) - labels._coverage(str(DEJAVU)))
        if chr(code).isalpha()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fonts([character]) == (["DejaVu Sans", "STIXGeneral"], "")
    labels._families.cache_clear()


def test_a_font_of_ones_own(tmp_path) -> None:
    assert fonts(["abc"], "DejaVu Serif")[0][0] == "DejaVu Serif"
    copy = tmp_path / "mine.ttf"
    copy.write_bytes(DEJAVU.with_name("DejaVuSansMono.ttf").read_bytes())
    assert fonts(["abc"], str(copy))[0] == ["DejaVu Sans Mono", "DejaVu Sans"]
    with pytest.raises(UserError, match="no font 'Nonesuch'"):
        fonts(["abc"], "Nonesuch")
    (tmp_path / "text.ttf").write_text("no font", encoding="utf-8")
    with pytest.raises(UserError, match="not a font file"):
        fonts(["abc"], str(tmp_path / "text.ttf"))


def test_fonts_that_draw_boxes_for_everything_are_not_used() -> None:
    assert not [name for name, _ in labels._installed() if "Last" in name and "Resort" in name]


def test_extent_is_that_of_the_widest() -> None:
    narrow, wide = extent(["ii"], 10, ["DejaVu Sans"]), extent(["ii", "WW"], 10, ["DejaVu Sans"])
    assert 0 < narrow < wide
    assert extent(["WW"], 20, ["DejaVu Sans"]) == pytest.approx(2 * wide, rel=0.03)
    assert extent([], 10, ["DejaVu Sans"]) == 0
    assert extent(["$x$"], 10, ["DejaVu Sans"]) > extent(["x"], 10, ["DejaVu Sans"])  # no formula
