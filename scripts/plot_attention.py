"""`python scripts/plot_attention.py …` is `seq2seq attention …`."""

from seq2seq.cli.main import main

raise SystemExit(main(command="attention"))
