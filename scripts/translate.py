"""`python scripts/translate.py …` is `seq2seq translate …`."""

from seq2seq.cli.main import main

raise SystemExit(main(command="translate"))
