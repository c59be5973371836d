"""The LibreOffice help corpus from the real packages, where apt can get them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from seq2seq.data.libreoffice import build, download
from seq2seq.data.lines import read_lines
from seq2seq.errors import UserError

pytestmark = pytest.mark.slow


def test_english_german(tmp_path: Path) -> None:
    if shutil.which("apt-get") is None:
        pytest.skip("no apt-get here")
    debs = tmp_path / "debs"
    debs.mkdir()
    try:
        download(["libreoffice-help-en-us", "libreoffice-help-de"], debs)
    except UserError as error:
        pytest.skip(f"apt has no packages to give: {error}")
    counts = build("de", tmp_path / "out", debs=debs, report=lambda _: None)
    assert counts["train"] > 30_000
    assert min(counts["dev"], counts["test"]) > 500
    texts = {
        (part, code): list(read_lines(tmp_path / "out" / f"{part}.{code}"))
        for part in counts
        for code in ("en", "de")
    }
    assert not set(texts["train", "en"]) & set(texts["test", "en"] + texts["dev", "en"])
    pairs = dict(zip(texts["train", "en"], texts["train", "de"], strict=True))
    assert pairs["Insert Comment"] == "Kommentar einfügen"
    for text in texts.values():
        assert not any("<span" in line or "&amp;" in line or "  " in line for line in text)
