"""Multi30k: 29,000 image captions in English, German and French (Elliott et al. 2016).

The corpus is not part of this project. It is read from a folder that the user names, which
`fetch` can fill from the corpus's public home.
"""

from __future__ import annotations

import gzip
import http.client
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

from seq2seq.config import DataConfig
from seq2seq.data.lines import PairFiles
from seq2seq.errors import UserError

REPOSITORY = "https://github.com/multi30k/dataset"
HOME = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
INSIDE_REPOSITORY = Path("data/task1/raw")  # where the files lie in a clone of it
SPLITS = (
    "train",
    "val",
    "test_2016_flickr",
    "test_2017_flickr",
    "test_2017_mscoco",
    "test_2018_flickr",
)
STANDARD = ("train", "val", "test_2016_flickr")  # training, dev and test
TIMEOUT = 30.0  # seconds without an answer

# SHA-256 of the uncompressed text, so that it does not matter who compressed it.
CHECKSUMS = {
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    "test_2017_flickr.en": "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98",
    "test_2017_flickr.de": "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081",
    "test_2017_flickr.fr": "6f3764e31dac41e9455e612958bcfd4e877c5e15cd66df2c2b2be6d9bd83e5b6",
    "test_2017_mscoco.en": "43051fdfa86fd5395182e718a94ca67b1b227b9f7c79596ff0f6b813216981d2",
    "test_2017_mscoco.de": "58277df3c75f92f7145a11b910b553d1cf82c439249d4dc237c899609eafac22",
    "test_2017_mscoco.fr": "39cde3f43f32b0a6bf29ce4917a46329ff32e53070c2fac87506695a740ae0a0",
    "test_2018_flickr.en": "4e585c2dd525911a6ea7730e9d0b516239af3f1b1ffae6a2130223cfb639f25e",
    "test_2018_flickr.de": "39fcc8b3331d76fb42d648d019c6898b0d5e58baac87bc2a0bb93f44ec8db207",
    "test_2018_flickr.fr": "234b4a887da0da4801a3e2c6f21336231ff7dd46daeb80cfa1b551c8bbb78239",
}


def standard_splits(config: DataConfig) -> tuple[PairFiles, PairFiles, PairFiles]:
    """The files for training, dev (val) and test (test_2016_flickr).

    Raises:
        UserError: data.root is missing or lacks some of them; all are named.
    """
    missing = []
    folder = _folder(config)
    for split in STANDARD:
        for language in (config.source_lang, config.target_lang):
            if _find(folder, split, language) is None:
                missing.append(f"{split}.{language}.gz")
    if missing:
        raise UserError(f"data.root: {folder} lacks {', '.join(missing)}; {_how_to_fetch(folder)}")
    train, dev, test = (split_files(config, split) for split in STANDARD)
    return train, dev, test


def split_files(config: DataConfig, split: str) -> PairFiles:
    """The two files of one split of `SPLITS`.

    Raises:
        UserError: data.root is missing or lacks one of them.
    """
    folder = _folder(config)
    paths = []
    for language in (config.source_lang, config.target_lang):
        path = _find(folder, split, language)
        if path is None:
            raise UserError(
                f"data.root: {folder} lacks {split}.{language}.gz; " + _how_to_fetch(folder)
            )
        paths.append(str(path))
    return PairFiles(paths[0], paths[1], ("data.root", "data.root"))


def deviations(config: DataConfig) -> list[str]:
    """A note for each standard file whose text differs from the published one."""
    notes = []
    for split in STANDARD:
        for language in (config.source_lang, config.target_lang):
            path = _find(_folder(config), split, language)
            published = CHECKSUMS.get(f"{split}.{language}")
            if path is not None and published and text_checksum(path) != published:
                notes.append(
                    f"{path} differs from the published Multi30k text, so scores on this corpus "
                    "cannot be compared with published ones."
                )
    return notes


def text_checksum(path: Path) -> str:
    """SHA-256 of a file's content, uncompressed if its name ends in .gz.

    Raises:
        UserError: the file is not a whole gzip file.
    """
    digest = sha256()
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is a damaged gzip file ({error}): remove it.") from None
    return digest.hexdigest()


def fetch(
    folder: Path,
    *,
    home: str = HOME,
    checksums: Mapping[str, str] = CHECKSUMS,
    report: Callable[[str], None] = print,
) -> None:
    """Download the files that `folder` lacks and check each against its SHA-256.

    Args:
        folder: is created if need be; files already there are checked, never overwritten.
        home: URL of the folder that holds the files NAME.gz.
        checksums: name → SHA-256 of the uncompressed text.
        report: receives a line for each file.

    Raises:
        UserError: no connection, or a file whose text is not the published one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, checksum in checksums.items():
        path = folder / f"{name}.gz"
        if path.exists():
            _verify(path, checksum, str(path))
            report(f"{path} is there already")
            continue
        url = f"{home}/{name}.gz"
        part = folder / f"{name}.part.gz"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                part.write_bytes(answer.read())
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise UserError(
                f"Cannot fetch {url} ({reason}): without a connection, get {name}.gz and the other "
                f"files of {REPOSITORY} (folder {INSIDE_REPOSITORY}) on another machine and put "
                f"them into {folder}."
            ) from None
        try:
            _verify(part, checksum, url)
        except UserError:
            part.unlink()
            raise
        part.rename(path)
        report(f"{path} fetched and verified")


def _verify(path: Path, checksum: str, name: str) -> None:
    found = text_checksum(path)
    if found != checksum:
        raise UserError(
            f"{name} is not the published text (SHA-256 {found[:12]}… instead of "
            f"{checksum[:12]}…): remove it and fetch again."
        )


def _folder(config: DataConfig) -> Path:
    if config.root is None:
        raise UserError(
            "data=multi30k needs data.root, a folder with the corpus; "
            + _how_to_fetch(Path("multi30k"))
        )
    folder = Path(config.root)
    if not folder.is_dir():
        raise UserError(f"data.root: {folder} is not a folder; {_how_to_fetch(folder)}")
    inside = folder / INSIDE_REPOSITORY
    return inside if inside.is_dir() else folder


def _find(folder: Path, split: str, language: str) -> Path | None:
    candidates = (folder / f"{split}.{language}.gz", folder / f"{split}.{language}")
    return next((path for path in candidates if path.is_file()), None)


def _how_to_fetch(folder: Path) -> str:
    return (
        f"fetch it with: seq2seq corpus multi30k --out {folder} "
        "(English, German and French, from the Multi30k repository on GitHub)."
    )
