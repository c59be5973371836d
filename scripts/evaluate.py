"""`python scripts/evaluate.py …` is `seq2seq evaluate …`."""

from seq2seq.cli.main import main

raise SystemExit(main(command="evaluate"))
