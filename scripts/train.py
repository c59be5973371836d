"""`python scripts/train.py …` is `seq2seq train …`."""

from seq2seq.cli.main import main

raise SystemExit(main(command="train"))
