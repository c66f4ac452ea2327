#!/usr/bin/env bash
# notebook.sh PROGRAM SOURCE: the package from a fresh venv, and its notebook from the first cell to the last. 77: skipped.
set -euo pipefail
program=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() { echo "skipped: $*"; exit 77; }

command -v python3 >/dev/null || skip "python3 is not installed"
# What Debian packages counts (bash scripts/setup.sh test); else it comes from PyPI.
python3 -m venv --system-site-packages "$work/venv" || skip "python3 makes no venv: apt install python3-venv"
python=$work/venv/bin/python
cp -r "$source/scripts/python" "$work/package" # pip leaves files beside what it installs
"$python" -m pip install -q --no-deps --no-build-isolation "$work/package" 2>"$work/why" \
  || "$python" -m pip install -q --no-deps "$work/package" 2>>"$work/why" \
  || { tail -n 3 "$work/why"; skip "pip cannot install the package: setuptools is missing, and there is no network"; }

# A notebook without the program says how to come by it.
(cd "$work" && env -u TESSERA PATH=/nowhere "$python" - <<'EOF'
import tessera
assert tessera.__file__.find("site-packages") > 0, tessera.__file__
try:
    tessera.plan(model="opt-13b", cluster="1xL4")
except tessera.ProgramNotFound as error:
    text = str(error)
    assert error.code == "not_found" and "quickstart.sh" in text and "TESSERA=" in text, text
else:
    raise SystemExit("a program was found on an empty PATH")
EOF
)

"$python" -c 'import nbclient, nbformat, ipykernel' 2>/dev/null \
  || "$python" -m pip install -q nbclient nbformat ipykernel 2>"$work/why" \
  || { tail -n 3 "$work/why"; skip "nbclient, nbformat and ipykernel are neither installed nor to be had from PyPI"; }
"$python" -m ipykernel install --prefix "$work/venv" --name fresh >/dev/null 2>&1
cd "$work"
env -u PYTHONPATH TESSERA="$program" JUPYTER_PATH="$work/venv/share/jupyter" IPYTHONDIR="$work" \
  "$python" - "$source/scripts/python/notebook.ipynb" <<'EOF'
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
assert len(notebook.cells) == 10, len(notebook.cells)
assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are stored in the notebook"
NotebookClient(notebook, timeout=300, kernel_name="fresh").execute()
shown = [set(output.get("data", {})) for cell in notebook.cells for output in cell.get("outputs", [])]
kinds = set().union(*shown)
assert {"text/html", "image/svg+xml"} <= kinds, kinds  # tables and frames, and a picture
print("10 cells ran; they show", ", ".join(sorted(kinds)))
EOF
