"""The program `tessera` from Python: its answers as data, its results as rows, its pictures in notebooks.

Nothing is computed here. Every call starts the program once (`tessera --json ...`); results are read from their SQLite
file. The standard library is enough. `tessera man python` has examples.
"""

import html
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile

__all__ = ["Answer", "Page", "Picture", "ProgramNotFound", "Results", "TesseraError", "lua", "plan", "program", "report",
           "run", "serve"]


class TesseraError(Exception):
    """What the program refused, or found to be impossible."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]  # "infeasible", "usage", "not_found", ...
        self.error = error  # all there is, as data


class ProgramNotFound(TesseraError):
    """There is no program to start."""


def program():
    """Path of the program: $TESSERA, else `tessera` on PATH."""
    named = os.environ.get("TESSERA")
    found = shutil.which(named or "tessera")
    if found:
        return found
    where = "$TESSERA names %r, which is no program" % named if named else "there is no program 'tessera' on PATH"
    raise ProgramNotFound({"code": "not_found", "message": where + ": build it with `bash scripts/quickstart.sh` and set "
                           "TESSERA=/path/to/build/release/bin/tessera, or put that folder on PATH"})


def _flag(name, value):
    flag = "--" + name.replace("_", "-")
    if isinstance(value, bool):
        return flag if value else "--no-" + flag[2:]
    if isinstance(value, (list, tuple)):
        value = ",".join(map(str, value))
    return "%s=%s" % (flag, value)


def run(*words, **flags):
    """run("plan", model="opt-13b", cluster="4xL4"): what that command answers, as data.

    Names of flags have _ for -; True and False are --flag and --no-flag, lists are joined by commas, None is left out.
    """
    command = [program(), "--json", *map(str, words)]
    command += [_flag(name, value) for name, value in flags.items() if value is not None]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    answer = json.loads(done.stdout) if done.stdout.strip() else None
    if isinstance(answer, dict) and "error" in answer:
        raise TesseraError(answer["error"])
    if done.returncode != 0 and answer is None:
        raise TesseraError({"code": "failed", "message": done.stderr.strip() or "it ended with %d" % done.returncode})
    return answer


def _as_lua(value):
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return '"%s"' % "".join("\\%03d" % byte if byte < 32 or byte > 126 or byte in b'"\\' else chr(byte)
                                for byte in value.encode())
    if isinstance(value, dict):
        return "{%s}" % ", ".join("[%s] = %s" % (_as_lua(key), _as_lua(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return "{%s}" % ", ".join(map(_as_lua, value))
    raise TypeError("no Lua for a %s" % type(value).__name__)


def lua(code, **values):
    """What a Lua script returns, as data; `values` are locals of it: lua("return x + 1", x=2)."""
    locals_ = "".join("local %s = %s\n" % (name, _as_lua(value)) for name, value in values.items())
    return run("-e", 'local ts = require "tessera"\n' + locals_ + code)


class Picture:
    """An SVG picture, which notebooks show."""

    def __init__(self, svg):
        self.svg = svg

    def _repr_svg_(self):
        return self.svg

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)


class Page:
    """An HTML page that stands alone, which notebooks show in a frame."""

    def __init__(self, text, height=600):
        self.html, self.height = text, height

    def _repr_html_(self):
        return '<iframe srcdoc="%s" width="100%%" height="%d" style="border:0"></iframe>' % (
            html.escape(self.html), self.height)

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)


def _short(value):
    if isinstance(value, float):
        return "%.4g" % value
    return html.escape(str(value))


def _table(rows, columns=None):
    columns = columns or list(dict.fromkeys(name for row in rows for name, value in row.items()
                                            if not isinstance(value, (dict, list))))
    head = "".join("<th>%s</th>" % html.escape(name) for name in columns)
    body = "".join("<tr>%s</tr>" % "".join("<td>%s</td>" % _short(row.get(name, "")) for name in columns)
                   for row in rows)
    return "<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>" % (head, body)


class Answer(dict):
    """An answer as data that notebooks show: `picture` where there is one, else its rows or its fields as a table."""

    picture = None
    columns = ["rank", "layout", "rate_per_s", "ttft_p99_s", "tpot_p99_s", "tok_s_per_gpu", "bitwidth", "usd_per_h"]

    def _repr_html_(self):
        if self.picture:
            return self.picture.svg
        if "options" in self:
            return _table(self["options"], self.columns)
        return _table([{"field": name, "value": value} for name, value in self.items()
                       if not isinstance(value, (dict, list))])


def _written(suffix, write):
    """The text of the file that write(path) makes, and what write gives."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file" + suffix)
        answer = write(path)
        with open(path, encoding="utf-8") as file:
            return file.read(), answer


def plan(**flags):
    """`tessera plan`: of a stream `options`, the best first; with batch_size the plan of a batch, with a picture."""
    if flags.get("batch_size") is None:
        return Answer(run("plan", **flags))
    svg, answer = _written(".svg", lambda path: run("plan", **dict(flags, picture=path)))
    answer = Answer(answer)
    answer.picture = Picture(svg)
    return answer


def serve(deployment, traffic, **options):
    """ts.serve of the options of ts.deployment and ts.traffic: serve({"model": ..., "cluster": ...}, {"rate_per_s": 4},
    slo={"ttft_s": {"p99": 2}})."""
    svg, answer = _written(".svg", lambda path: lua(
        "local served = ts.serve(ts.deployment(deployment), ts.traffic(traffic), options)\n"
        "ts.picture(served, path)\nreturn served:to_table()",
        deployment=deployment, traffic=traffic, options=options, path=path))
    answer = Answer(answer)
    answer.picture = Picture(svg)
    return answer


def report(verb, *words, **flags):
    """The page that --report writes: report("plan", model=..., cluster=...)."""
    text, _ = _written(".html", lambda path: run(verb, *words, **dict(flags, report=path)))
    return Page(text)


class Results:
    """A results file: each experiment is a view of SQLite, a row for each point of each run."""

    def __init__(self, file="results.db"):
        if not os.path.exists(file):
            raise FileNotFoundError("%s: there is no such results file; `tessera run SCRIPT --results %s` makes one"
                                    % (file, file))
        self.file = file

    def names(self):
        return [row["experiment"] for row in run("results", results=self.file)]

    def rows(self, name):
        """Its rows as dicts, with a key for each column, and run_id, status, error and duration_s."""
        connection = sqlite3.connect("file:%s?mode=ro" % self.file, uri=True)
        try:
            connection.row_factory = sqlite3.Row
            found = connection.execute('select * from "rows:%s"' % name.replace('"', '""'))
            return [dict(row) for row in found]
        except sqlite3.OperationalError as error:
            raise KeyError("%s: no experiment %r (%s)" % (self.file, name, error)) from error
        finally:
            connection.close()

    def means(self, name, over, **flags):
        """Means over repetitions with COLUMN_half, half of their 95 % interval; against= takes paired differences."""
        return run("results", name, results=self.file, over=over, **flags)

    def plots(self, name, **flags):
        """Its plots as pictures."""
        with tempfile.TemporaryDirectory() as folder:
            pictures = []
            for path in run("plot", name, results=self.file, out=folder, format="svg", **flags):
                with open(path, encoding="utf-8") as file:
                    pictures.append(Picture(file.read()))
            return pictures

    def report(self, *names):
        """The page of `tessera report`."""
        text, _ = _written(".html", lambda path: run("report", *names, results=self.file, out=path))
        return Page(text)
