"""The `seq2seq` command: what it imports, how it ends, how it reads and writes."""

import argparse
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

import seq2seq
from seq2seq.cli import args as cli_args
from seq2seq.cli import main as cli_main
from seq2seq.cli.args import Parser, chosen, progress_bar, refuse_same_file, writing
from seq2seq.cli.main import COMMANDS, main
from seq2seq.config import DecodeConfig, RunConfig
from seq2seq.errors import UserError

HEAVY = {"torch", "hydra", "omegaconf", "matplotlib", "sacrebleu", "rich", "numpy"}


def python(code: str, *arguments: str, **kwargs) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, **kwargs)


def command(*arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None):
    return subprocess.run(
        [sys.executable, "-m", "seq2seq", *arguments],
        capture_output=True,
        timeout=60,
        env={**os.environ, **(env or {})},
        cwd=cwd,
    )


@pytest.fixture
def fake(monkeypatch):
    """A command `seq2seq fake` that runs the function given."""

    def register(function):
        monkeypatch.setattr(cli_main, "find_command", lambda name: lambda argv: function(argv))

    return register


# What is imported


@pytest.mark.parametrize("argument", ["--help", "--version", "help", ""])
def test_the_overview_imports_nothing_heavy(argument):
    code = (
        "import sys; from seq2seq.cli.main import main; main(sys.argv[1:]);"
        "print('MODULES', *sys.modules)"
    )
    done = python(code, *filter(None, [argument]))
    assert done.returncode == 0, done.stderr
    modules = set(done.stdout.decode().split("MODULES")[1].split())
    assert not modules & HEAVY


def test_importing_the_package_imports_nothing_heavy():
    done = python("import sys, seq2seq; print(*sys.modules)")
    assert not set(done.stdout.decode().split()) & HEAVY


def test_help_of_training_does_not_wait_for_torch():
    code = (
        "import sys\nfrom seq2seq.cli.main import main\n"
        "try: main(['train', '--help'])\nexcept SystemExit: print('MODULES', *sys.modules)"
    )
    modules = set(python(code).stdout.decode().split("MODULES")[1].split())
    assert not modules & {"torch", "hydra", "omegaconf"}


# Public names


@pytest.mark.parametrize("name", sorted(seq2seq._PUBLIC))
def test_every_public_name_is_the_one_of_its_module(name):
    module = sys.modules.get(seq2seq._PUBLIC[name]) or __import__(
        seq2seq._PUBLIC[name], fromlist=[name]
    )
    assert getattr(seq2seq, name) is getattr(module, name)
    assert name in dir(seq2seq)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Translater'"):
        _ = seq2seq.Translater


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert seq2seq.__version__ == version("seq2seq-attention")


# The table


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name, capsys):
    try:
        status = main([name, "--help"])
    except SystemExit as end:  # as argparse ends
        status = end.code
    assert status == 0
    assert capsys.readouterr().out.startswith(f"usage: seq2seq {name} ")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "corpus"])
def test_every_help_has_complete_examples(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert f"\n  seq2seq {name} " in capsys.readouterr().out.split("examples:")[1]


def test_the_overview_lists_every_command_with_its_line(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name, (_, line) in COMMANDS.items():
        assert f"  {name} " in text
        assert line in text


@pytest.mark.parametrize(
    ("typed", "meant"), [("trian", "train"), ("tranlate", "translate"), ("evalute", "evaluate")]
)
def test_an_unknown_command_names_the_nearest(typed, meant, capsys):
    assert main([typed]) == 2
    assert capsys.readouterr().err == f"error: Unknown command {typed!r}: did you mean {meant}?\n"


def test_a_command_like_none_lists_all(capsys):
    assert main(["xyzzy"]) == 2
    error = capsys.readouterr().err
    assert all(name in error for name in COMMANDS)


def test_no_command_shows_the_overview_and_fails(capsys):
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


def test_scripts_are_the_same_commands():
    folder = Path(seq2seq.__file__).parent.parent / "scripts"
    done = subprocess.run(
        [sys.executable, folder / "translate.py", "--run", "x", "--input", folder],
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert b"is a folder, but a text file is needed" in done.stderr
    for script in folder.glob("*.py"):
        name = "attention" if script.stem == "plot_attention" else script.stem
        assert f'command="{name}"' in script.read_text(encoding="utf-8")
        assert name in COMMANDS


# How it ends


def test_a_user_error_is_one_line_on_stderr_and_status_2(fake, capsys):
    def fails(argv):
        raise UserError("Put it right.")

    fake(fails)
    assert main(["fake"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "error: Put it right.\n"
    assert captured.out == ""


def test_ctrl_c_is_status_130(fake, capsys):
    def interrupted(argv):
        raise KeyboardInterrupt

    fake(interrupted)
    assert main(["fake"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_fault_of_ours_keeps_its_traceback(fake):
    def broken(argv):
        raise ZeroDivisionError("ours")

    fake(broken)
    with pytest.raises(ZeroDivisionError):
        main(["fake"])


def test_the_status_and_arguments_of_the_command_are_passed_on(fake):
    seen = []

    def counts(argv):
        seen.append(argv)
        return 7

    fake(counts)
    assert main(["fake", "--a", "b"]) == 7
    assert seen == [["--a", "b"]]


def test_a_reader_that_leaves_is_no_error():
    code = (
        "import sys, seq2seq.cli.main as m\n"
        "m.find_command = lambda name: lambda argv: print('x\\n' * 5_000_000) or 0\n"
        "sys.exit(m.main(['fake']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141
    assert errors == b""


# Text whatever the locale says

ASCII_LOCALE = {
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONIOENCODING": "",
    "PYTHONCOERCECLOCALE": "0",
}


def test_arguments_and_output_are_utf8_under_an_ascii_locale(tmp_path):
    name = "Имя – 名"
    done = command("train", "--name", name, "--cfg", "job", env=ASCII_LOCALE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"name: {name}".encode() in done.stdout


def test_a_file_name_outside_ascii_is_found_under_an_ascii_locale(tmp_path):
    (tmp_path / "текст.txt").write_text("a\n", encoding="utf-8")
    done = command(
        "evaluate",
        *("--hypotheses", "текст.txt", "--reference", "текст.txt"),
        env=ASCII_LOCALE,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "exact match = 100.0 % of 1" in done.stdout.decode()


def test_messages_are_utf8_under_an_ascii_locale():
    done = command("тренировать", env=ASCII_LOCALE)
    assert done.returncode == 2
    assert "тренировать".encode() in done.stderr


# Options


def parser() -> Parser:
    result = Parser("fake", "Does nothing.", "seq2seq fake --beam 3", schema=RunConfig)
    result.add_argument("--beam", type=int)
    result.add_argument("--batch-tokens", type=int)
    return result


def test_options_and_overrides_mix_in_any_order():
    found = parser().parse(["a=1", "--beam", "3", "b=2"])
    assert (found.overrides, found.beam) == (["a=1", "b=2"], 3)


def test_an_unknown_option_names_the_nearest():
    with pytest.raises(UserError, match=r"unknown option --baem; did you mean --beam\?"):
        parser().parse(["--baem", "3"])
    with pytest.raises(UserError, match=r"unknown option --zzz \(all options: seq2seq fake --help"):
        parser().parse(["--zzz"])


def test_options_are_not_abbreviated():
    with pytest.raises(UserError, match=r"did you mean --batch-tokens\?"):
        parser().parse(["--batch-token", "3"])


def test_a_value_of_a_wrong_type_names_the_option():
    with pytest.raises(UserError, match=r"argument --beam: invalid int value: 'many'"):
        parser().parse(["--beam", "many"])


def test_only_flags_that_were_given_set_configuration_keys():
    args = argparse.Namespace(beam=0, alpha=None, n_best=None, batch_tokens=5)
    assert chosen(args, cli_args.SEARCH_OPTIONS) == {"decode.beam": 0, "decode.batch_tokens": 5}


def test_every_search_option_sets_a_key_that_exists():
    names = {key.partition(".")[2] for key in cli_args.SEARCH_OPTIONS.values()}
    assert all(hasattr(DecodeConfig(), name) for name in names)


# Output


def test_output_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("before\n", encoding="utf-8")

    def fail_halfway():
        with writing(target) as out:
            out.write("half\n")
            assert target.read_text(encoding="utf-8") == "before\n"
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert target.read_text(encoding="utf-8") == "before\n"
    assert list(tmp_path.iterdir()) == [target]
    with writing(target) as out:
        out.write("Grüße\u2028\n")
    assert target.read_bytes() == "Grüße\u2028\n".encode()
    assert list(tmp_path.iterdir()) == [target]


def test_output_has_the_rights_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        with writing(tmp_path / "deep" / "out.txt") as out:
            out.write("x\n")
    finally:
        os.umask(before)
    assert (tmp_path / "deep" / "out.txt").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("path", [None, "-"])
def test_output_is_stdout_by_default(path, capsys):
    with writing(path) as out:
        out.write("x\n")
    assert capsys.readouterr().out == "x\n"


def test_output_into_a_folder_or_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="Cannot write to"), writing(path):
            pass


def test_a_special_file_is_written_in_place():
    with writing("/dev/null") as out:
        out.write("x\n")
    assert Path("/dev/null").is_char_device()


def test_writing_over_the_input_is_refused(tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("x\n", encoding="utf-8")
    (tmp_path / "link").symlink_to(source)
    for output in (source, tmp_path / "link", tmp_path / "." / "in.txt"):
        with pytest.raises(UserError, match="is the input itself"):
            refuse_same_file(str(source), str(output))
    for ours, theirs in ((None, "x"), ("-", "-"), (str(source), str(tmp_path / "new"))):
        refuse_same_file(ours, theirs)


def test_progress_is_silent_where_nobody_watches(capsys):
    with progress_bar("working") as show:
        assert show is None
    assert capsys.readouterr().err == ""


def test_progress_is_shown_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar("working") as show:
        assert show is not None
        show(3, 10)
    captured = capsys.readouterr()
    assert "working" in captured.err
    assert captured.out == ""


def test_warnings_of_the_package_reach_stderr_with_their_level():
    code = (
        "import logging; from seq2seq.cli.args import show_warnings\n"
        "show_warnings(); show_warnings()\n"
        "logging.getLogger('seq2seq.decoding').warning('line %d is long', 3)\n"
        "logging.getLogger('seq2seq.decoding').info('not this')"
    )
    assert python(code).stderr == b"warning: line 3 is long\n"


def test_what_the_system_refuses_is_one_line(fake, capsys):
    def full(argv):
        raise OSError(errno.ENOSPC, "No space left on device", "runs/x")

    fake(full)
    assert main(["fake"]) == 2
    assert capsys.readouterr().err == "error: No space left on device: runs/x.\n"


def test_other_system_errors_keep_their_traceback(fake):
    def broken(argv):
        raise OSError(errno.EIO, "Input/output error")

    fake(broken)
    with pytest.raises(OSError, match="Input/output error"):
        main(["fake"])
