"""`python scripts/score.py …` is `seq2seq score …`."""

from seq2seq.cli.main import main

raise SystemExit(main(command="score"))
