from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from attention_samples import SENTENCES, make_record, make_run, without_heads
from matplotlib.image import imread

from seq2seq.attention_maps import AttentionMaps
from seq2seq.cli.main import main
from seq2seq.errors import UserError
from viz import gallery
from viz.cli import attention
from viz.gallery import Wish, place
from viz.labels import FontWarning

SOURCE, TARGET = SENTENCES[1]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> str:
    torch.set_num_threads(1)
    return str(make_run(tmp_path_factory.mktemp("runs") / "tiny"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def stamps(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def pair(run: str, source: str = SOURCE) -> list[str]:
    return ["--run", run, "--text", source, "--target", TARGET]


def test_one_sentence(run, tmp_path, capsys) -> None:
    assert attention([*pair(run), "--out", str(tmp_path / "a")]) == 0
    (out, err) = capsys.readouterr()
    found = names(tmp_path / "a")
    assert {f"attn_000_{kind}_overview.png" for kind in ("enc", "dec", "cross")} <= set(found)
    assert {f"attn_000_{end}.png" for end in ("enc_L1", "dec_L2", "cross_L2")} <= set(found)
    assert "attn_000.npz" in found
    assert all(name.isascii() for name in found)
    assert f"source: {SOURCE}\ntarget: {TARGET}\n" in out
    listed = [Path(line.strip()).name for line in out.split("\n") if line.startswith("  ")]
    assert sorted(listed) == found
    assert err == ""
    maps = AttentionMaps.load(tmp_path / "a" / "attn_000.npz")
    assert maps.text == {"source": SOURCE, "target": TARGET}
    assert maps.meta["run"] == "tiny"
    assert maps.meta["step"] == 7
    assert maps.meta["how"] == "forced"
    assert re.fullmatch("[0-9a-f]{12}", maps.meta["weights_hash"])


def test_the_translation_is_made_and_recorded(run, tmp_path, capsys) -> None:
    from seq2seq.decoding.translator import Translator

    arguments = ["--out", str(tmp_path), "--kinds", "cross", "--beam", "2"]
    assert attention(["--run", run, "--text", SOURCE, *arguments]) == 0
    (expected,) = Translator.from_pretrained(run).translate([SOURCE], beam=2)
    maps = AttentionMaps.load(tmp_path / "attn_000.npz")
    assert maps.text["target"] == expected.text
    ended = expected.tokens[:-1] if expected.hit_limit else expected.tokens
    assert maps.tgt_out == ended
    assert maps.logprob == pytest.approx(expected.token_scores[: len(ended)], abs=1e-4)
    assert maps.meta["decode"] == "beam 2"
    assert "target: " + expected.text in capsys.readouterr().out
    assert not [name for name in names(tmp_path) if "_enc_" in name or "_dec_" in name]


def test_a_command_given_again_changes_nothing_and_another_loses_nothing(run, tmp_path) -> None:
    options = ["--out", str(tmp_path), "--kinds", "enc", "--figures", "overview"]
    attention([*pair(run), *options])
    before = stamps(tmp_path)
    attention([*pair(run), *options])
    assert stamps(tmp_path) == before
    attention([*pair(run), *options, "--special", "mute"])  # same names, other pictures
    attention([*pair(run, "It was ready."), *options])
    again = stamps(tmp_path)
    assert before.items() <= again.items()
    assert {"attn_000.npz", "attn_001.npz", "attn_002.npz"} <= set(again)


def test_several_sentences_of_a_file(run, tmp_path) -> None:
    (tmp_path / "in.en").write_text(f"{SOURCE}\n\n{SENTENCES[0][0]}\n", encoding="utf-8")
    (tmp_path / "in.de").write_text(f"{TARGET}\n\n{SENTENCES[0][1]}\n", encoding="utf-8")
    out = tmp_path / "out"
    inputs = ["--input", str(tmp_path / "in.en"), "--target-input", str(tmp_path / "in.de")]
    choices = ["--kinds", "dec", "--figures", "layer", "--format", "svg,pdf"]
    attention(["--run", run, *inputs, "--out", str(out), *choices])
    assert names(out) == [
        "attn.html",
        "attn_000.npz",
        "attn_000_dec_L2.pdf",
        "attn_000_dec_L2.svg",
        "attn_001.npz",
        "attn_001_dec_L2.pdf",
        "attn_001_dec_L2.svg",
    ]
    assert AttentionMaps.load(out / "attn_001.npz").text["source"] == SENTENCES[0][0]


def test_chosen_layers_heads_words_and_figures(run, tmp_path) -> None:
    base = [*pair(run), "--out", str(tmp_path), "--kinds", "cross"]
    attention([*base, "--layers", "0,2", "--heads", "1"])
    attention([*base, "--level", "word", "--figures", "layer,average", "--layers", "1"])
    assert names(tmp_path) == [
        "attn.html",
        "attn_000.npz",
        "attn_000_cross_L0H1.png",
        "attn_000_cross_L1_mean_words.png",
        "attn_000_cross_L1_words.png",
        "attn_000_cross_L2H1.png",
        "attn_000_cross_overview.png",
        "attn_2.html",
    ]


def test_every_figure_has_a_file(run, tmp_path, capsys) -> None:
    names_of = "overview,layer,head,average,lines,steps,diff,norms,rollout"
    choices = ["--layers", "1", "--heads", "0", "--kinds", "enc,cross", "--no-page"]
    compared = ["--compare", run, "--figures", names_of]
    attention([*pair(run), "--out", str(tmp_path), *choices, *compared])
    ends = ["L1", "L1H0", "L1H0_diff", "L1H0_lines", "L1H0_norms", "L1_mean", "overview", "rollout"]
    expected = [f"attn_000_enc_{end}.png" for end in ends]
    expected += [f"attn_000_cross_{end}.png" for end in [*ends, "L1H0_steps"]]
    assert names(tmp_path) == sorted([*expected, "attn_000.npz"])
    assert capsys.readouterr().err == ""
    assert AttentionMaps.load(tmp_path / "attn_000.npz").norms is not None


def test_norms_instead_of_weights(run, tmp_path) -> None:
    base = [*pair(run), "--out", str(tmp_path), "--kinds", "cross", "--no-page"]
    attention([*base, "--weight", "norm", "--figures", "overview", "--level", "word"])
    assert names(tmp_path) == ["attn_000.npz", "attn_000_cross_overview_words_norm.png"]
    maps = AttentionMaps.load(tmp_path / "attn_000.npz")
    (drawn,) = gallery.pictures(maps, Wish(("overview",), ("enc",), weight="norm"), single=True)
    image = next(axes.images[0] for axes in drawn[1]().axes if axes.images)
    assert maps.norms is not None
    assert np.array_equal(image.get_array(), maps.norms["enc"][0][0])


def test_resolution_and_paper(run, tmp_path) -> None:
    base = [*pair(run), "--kinds", "enc", "--figures", "overview"]
    attention([*base, "--out", str(tmp_path / "a"), "--dpi", "60", "--theme", "dark"])
    attention([*base, "--out", str(tmp_path / "b"), "--dpi", "120"])
    dark, light = (imread(tmp_path / x / "attn_000_enc_overview.png") for x in "ab")
    assert np.array(light.shape[:2]) == pytest.approx(2 * np.array(dark.shape[:2]), abs=2)
    assert dark[0, 0, :3].sum() < 0.4 < light[0, 0, :3].sum()
    assert '"theme":"dark"' in (tmp_path / "a" / "attn.html").read_text("utf-8")
    assert '"theme":"auto"' in (tmp_path / "b" / "attn.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "said"),
    [(["greedy"], "greedy"), (["beam"], "beam 5"), (["beam", "--beam", "3"], "beam 3")],
)
def test_how_targets_are_found(run, tmp_path, options, said) -> None:
    from seq2seq.decoding.translator import Translator

    arguments = ["--out", str(tmp_path), "--figures", "none", "--decode", *options]
    attention(["--run", run, "--text", SOURCE, *arguments])
    maps = AttentionMaps.load(tmp_path / "attn_000.npz")
    beam = 1 if said == "greedy" else int(said[-1])
    (expected,) = Translator.from_pretrained(run).translate([SOURCE], beam=beam)
    assert (maps.text["target"], maps.meta["decode"]) == (expected.text, said)
    attention([*pair(run), "--out", str(tmp_path), "--figures", "none", "--decode", "forced"])
    assert AttentionMaps.load(tmp_path / "attn_001.npz").meta["how"] == "forced"


def test_what_does_not_fit_one_sentence_is_told_and_left_out(run, tmp_path, capsys) -> None:
    long = " ".join(["The request was slow."] * 4)
    (tmp_path / "in.en").write_text(f"{SOURCE}\n{long}\n", encoding="utf-8")
    (tmp_path / "in.de").write_text(f"{TARGET}\n{TARGET}\n", encoding="utf-8")
    inputs = ["--input", str(tmp_path / "in.en"), "--target-input", str(tmp_path / "in.de")]
    choices = ["--kinds", "enc", "--figures", "lines", "--no-page", "--out", str(tmp_path / "out")]
    attention(["--run", run, *inputs, *choices])
    found = names(tmp_path / "out")
    assert found == ["attn_000.npz", "attn_000_enc_L1_lines.png", "attn_001.npz"]
    err = capsys.readouterr().err
    assert err.startswith("note: not drawn: “The request was slow.")
    assert "too many for lines" in err
    with pytest.raises(UserError, match="too many for lines"):
        attention(["--run", run, "--text", long, "--target", TARGET, *choices])


def test_more_heads_than_a_picture_holds_make_several() -> None:
    maps = make_record(shape=dict.fromkeys(("enc", "dec", "cross"), (1, 6)))
    wish = Wish(("lines", "steps"), ("cross",))
    ends = [name for name, _ in gallery.pictures(maps, wish, single=True)]
    assert ends == [
        "cross_L0H0H1H2H3_lines",
        "cross_L0H0H1H2H3_steps",
        "cross_L0H4H5_lines",
        "cross_L0H4H5_steps",
    ]
    for _, draw in gallery.pictures(maps, wish, single=True):
        assert draw().axes


def test_a_layer_without_heads_has_no_pictures() -> None:
    maps = without_heads(make_record(), "enc", 1, [])
    figures = ("layer", "average", "head", "lines", "overview", "rollout")
    ends = [name for name, _ in gallery.pictures(maps, Wish(figures, ("enc",)), single=True)]
    assert "enc_L0" in ends
    assert not [end for end in ends if "L1" in end]


def test_steps_of_what_takes_none_are_refused() -> None:
    maps = make_record()
    with pytest.raises(UserError, match="Steps are those of the decoder"):
        gallery.files(maps, Wish(("steps",), ("enc",)), single=True)
    with pytest.raises(UserError, match="need pieces"):
        gallery.files(maps, Wish(("steps",), ("dec",), level="word"), single=True)
    content, _ = gallery.files(maps, Wish(("steps",), level="word"), single=True)
    assert sorted(content) == [".npz", *(f"_cross_L{i}_steps_words.png" for i in range(3))]
    with pytest.raises(UserError, match="needs a second record"):
        gallery.files(maps, Wish(("diff",)), single=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--figures", "diff"], "--figures diff needs --compare"),
        (["--figures", "line"], "line is none of overview, layer"),
        (["--dpi", "9"], "dpi is 9, but must be from 50 to 1200"),
        (["--decode", "beam"], "--decode beam finds a target, but one is given"),
        (["--compare", "It was.", "--no-page"], "--compare is for the page or --figures diff"),
        (["--no-page", "--join", "x.csv"], "--join is for the page"),
        (["--layers", "9"], "no layer 9: the record holds 0, 1, 2"),
        (["--kinds", "enc", "--layers", "2"], "no layer 2: the record holds 0, 1"),
        (["--heads", "4"], "no head 4: the record holds 0, 1, 2, 3"),
        (["--heads", "a"], "no list of numbers"),
        (["--kinds", "self"], "self is none of enc, dec, cross"),
        (["--format", "gif"], "gif is none of png, svg, pdf"),
        (["--target-input", "x"], "--target-input with --input"),
        (["--max-tokens", "5"], "split it"),
        (["--level", "word", "--labels", "in"], "needs pieces"),
        (["--beam", "0"], "decode.beam is 0"),
        (["--beam", "1", "--decode", "beam"], "--beam 1 is greedy"),
        (["--beam", "2", "--decode", "greedy"], "has a beam of 1, not 2"),
        (["--beam", "2", "--decode", "forced"], "needs the target"),
        (["--font", "Nonesuch"], "no font 'Nonesuch'"),
        (["--levle", "word"], "did you mean --level"),
    ],
)
def test_mistakes_are_told_in_one_sentence(run, tmp_path, arguments, words) -> None:
    given = ["--run", run, "--text", SOURCE] if "--beam" in arguments else pair(run)
    with pytest.raises(UserError, match=words) as caught:
        attention([*given, "--out", str(tmp_path / "o"), *arguments])
    assert "\n" not in str(caught.value)


def test_files_of_unequal_length_are_refused(run, tmp_path) -> None:
    (tmp_path / "in.en").write_text(f"{SOURCE}\n{SOURCE}\n", encoding="utf-8")
    (tmp_path / "in.de").write_text(f"{TARGET}\n", encoding="utf-8")
    inputs = ["--input", str(tmp_path / "in.en"), "--target-input", str(tmp_path / "in.de")]
    with pytest.raises(UserError, match=r"in\.de ends before line 2"):
        attention(["--run", run, *inputs, "--out", str(tmp_path / "o")])
    out = ["--out", str(tmp_path / "o")]
    with pytest.raises(UserError, match=r"none\.txt does not exist"):
        attention(["--run", run, "--input", str(tmp_path / "none.txt"), *out])
    (tmp_path / "in.en").write_text("\n \n", encoding="utf-8")
    with pytest.raises(UserError, match="holds no sentence"):
        attention(["--run", run, "--input", str(tmp_path / "in.en"), *out])


def test_an_output_folder_that_is_a_file_is_refused(tmp_path) -> None:
    (tmp_path / "out").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="--out"):
        place(tmp_path / "out", 0, {".npz": b""})


def test_numbers_are_taken_whole(tmp_path) -> None:
    """One differing file is enough to go on to the next number; nothing is half mixed."""
    place(tmp_path, 0, {".npz": b"a", "_x.png": b"1"})
    assert place(tmp_path, 0, {".npz": b"a", "_y.png": b"2"})[0] == 0
    assert place(tmp_path, 0, {".npz": b"a", "_x.png": b"3"})[0] == 1
    assert place(tmp_path, 0, {".npz": b"a", "_x.png": b"1"})[0] == 0
    assert place(tmp_path, 1, {".npz": b"b"})[0] == 2


def test_missing_glyphs_are_noted_once(monkeypatch) -> None:
    from viz import labels

    labels._families.cache_clear()
    monkeypatch.setattr(labels, "_installed", lambda: [])
    maps = make_record(src=["彼", "女"])
    _, notes = gallery.files(maps, Wish(kinds=("enc", "cross")), single=True)
    assert len(notes) == 1
    assert "fonts-noto-cjk" in notes[0]
    assert issubclass(FontWarning, UserWarning)
    labels._families.cache_clear()


def test_the_dispatcher_finds_it(run, tmp_path, capsys, monkeypatch) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["attention", "--help"])
    assert stopped.value.code == 0
    assert "attn_N_KIND_overview.png" in capsys.readouterr().out
    assert main(["attention", "--run", run, "--out", str(tmp_path)]) == 2
    assert "--text --input is required" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{SOURCE}\n".encode())))
    arguments = ["--input", "-", "--out", str(tmp_path), "--kinds", "enc", "--beam", "1"]
    assert main(["attention", "--run", run, *arguments]) == 0
    assert "attn_000.npz" in names(tmp_path)
