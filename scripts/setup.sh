# Sourced by demo.sh and test.sh: goes to the project's folder and makes .venv there, with the
# tested versions of constraints.txt. Does nothing when that is done already.
# Sets: $python (of .venv). Reads: $PYTHON (which Python to build .venv from; default: found).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=.venv/bin/python

suits() { # a Python that starts, of a version we support, able to make environments
  "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' >/dev/null 2>&1
}

find_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python; do
    if suits "$candidate"; then
      echo "$candidate"
      return
    fi
    if [ "$candidate" = "${PYTHON:-}" ]; then break; fi # asked for this one and no other
  done
  echo "error: this needs Python 3.11, 3.12 or 3.13 (found: $(python3 --version 2>&1 || true))." >&2
  echo "Install one, or name it: PYTHON=/path/to/python3.12 $0" >&2
  return 1
}

make_environment() {
  local base
  base=$(find_python)
  if ! "$base" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    echo "error: $base cannot make environments; on Debian or Ubuntu: apt install python3-venv" >&2
    return 1
  fi
  echo "Making .venv with $("$base" --version) …"
  "$base" -m venv --clear .venv
}

# What the environment depends on; when it changes, packages are installed again.
fingerprint() {
  "$python" - <<'PYTHON'
import hashlib, pathlib, sys
content = b"".join(pathlib.Path(p).read_bytes() for p in ("pyproject.toml", "constraints.txt"))
print(sys.version_info[:2], pathlib.Path.cwd(), hashlib.sha256(content).hexdigest())
PYTHON
}

if ! suits "$python"; then make_environment; fi
stamp=.venv/installed
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$(fingerprint)" ]; then
  echo "Installing packages into .venv (once; this takes a few minutes) …"
  "$python" -m pip install --disable-pip-version-check -qq -c constraints.txt -e ".[dev]"
  fingerprint >"$stamp"
fi
