"""`python scripts/compare.py …` is `seq2seq compare …`."""

from seq2seq.cli.main import main

raise SystemExit(main(command="compare"))
