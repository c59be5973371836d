#!/usr/bin/env bash
# Sets everything up and runs the tests; further arguments go to pytest. Tests that take minutes, or
# need a GPU or a browser, are left out and counted: choose them with -m, such as -m slow.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
exec "$python" -m pytest -m "not slow and not gpu and not browser" "$@"
