#!/usr/bin/env bash
# The whole way once: sets everything up, trains the default model on the embedded (synthetic)
# grammar corpus, evaluates it, translates, shows what every attention head looks at, and measures
# which heads decide what "it" means; and teaches, with numbers, what multi-head attention does.
# Run again, it skips what is done; `rm -r runs/demo` starts over.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

run=runs/demo
pictures=$run/attention
report=$run/evaluation.txt
seq2seq() { "$python" -m seq2seq "$@"; }
title() { printf '\n== %s\n' "$1"; }

title "Training"
if [ -f "$run/finished.json" ]; then
  echo "Done before: $run"
elif [ -f "$run/last.json" ]; then
  echo "Going on where it was interrupted."
  seq2seq train --run "$run" --resume
else
  rm -rf "$run" # interrupted before anything was saved
  seq2seq train --run "$run" experiment=grammar train.snapshots=3
fi

title "Evaluation on held-out word combinations (synthetic corpus)"
if [ ! -f "$report" ]; then
  seq2seq evaluate --run "$run" --split test >"$report.part"
  mv "$report.part" "$report"
fi
cat "$report"

title "Translations"
cat >"$run/lesson.txt" <<'TEXT'
The developer deployed the application because it was ready.
The database rejected the request because it was slow.
The database rejected the request because it was long.
The animal crossed the road because it was frightened.
The engineer fixed the server because it had stopped responding.
TEXT
seq2seq translate --run "$run" --input "$run/lesson.txt" --output "$run/lesson.translated.txt"
paste -d '\n' "$run/lesson.txt" <(sed 's/^/  → /' "$run/lesson.translated.txt")

title 'Which heads resolve "it", and other links? (causal effect, on the synthetic corpus)'
if [ ! -f "$run/trace/answer.txt" ]; then
  rm -rf "$run/trace"
  seq2seq trace --run "$run" --probe --out "$run/trace" >"$run/trace.part"
  mv "$run/trace.part" "$run/trace/answer.txt"
fi
cat "$run/trace/answer.txt"

title "Every head: what it looks at, and what is lost without it"
if [ ! -f "$run/heads/answer.txt" ]; then
  rm -rf "$run/heads"
  seq2seq heads --run "$run" --out "$run/heads" --limit 150 --ablate loss \
    --join "$run/trace/heads.csv" >"$run/heads.part"
  mv "$run/heads.part" "$run/heads/answer.txt"
fi
cat "$run/heads/answer.txt"

title "How the heads came to be so"
if [ ! -f "$run/history/history.html" ]; then
  rm -rf "$run/history"
  seq2seq history --run "$run" --out "$run/history" >"$run/history.log"
fi
cat "$run/history/roles.md"

title "Word alignment by heads, against the truth that the grammar knows"
if [ ! -f "$run/align.txt" ]; then
  seq2seq align --run "$run" --split test --limit 200 >"$run/align.part"
  mv "$run/align.part" "$run/align.txt"
fi
cat "$run/align.txt"

title "Pictures and page of every head"
if [ ! -f "$pictures/done" ]; then
  seq2seq attention --run "$run" --input "$run/lesson.txt" --out "$pictures" \
    --join "$run/heads/heads.csv" >"$run/attention.log"
  touch "$pictures/done"
fi
echo "$(find "$pictures" -name '*.png' | wc -l) pictures in $pictures, and the page $pictures/attn.html"

title "The lesson: multi-head attention, claim by claim"
if [ ! -f "$run/lesson/lesson.txt" ]; then
  seq2seq lesson shapes worked mask cross parameters complexity \
    --run "$run" --out "$run/lesson" >/dev/null
fi
grep -e '^✓' -e '^~' -e '^✗' "$run/lesson/lesson.txt"

title "Where everything is"
echo "model and logs   $run"
echo "quality          $(grep -m1 BLEU "$report") (synthetic corpus)"
echo "which heads      $run/heads/heads.html, $run/trace/trace.md and route_it.png"
echo "through training $run/history/history.html (open it in a browser)"
echo "lesson           $run/lesson/lesson.html (open it in a browser)"
echo "page             $pictures/attn.html (open it in a browser)"
echo "pictures         $pictures"
echo "Translate:       .venv/bin/seq2seq translate --run $run < your.txt"
