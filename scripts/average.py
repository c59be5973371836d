"""`python scripts/average.py …` is `seq2seq average …`."""

from seq2seq.cli.main import main

raise SystemExit(main(command="average"))
