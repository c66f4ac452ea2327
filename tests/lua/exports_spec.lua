-- `tessera results`: the published numbers beside ours in every format, exact columns, LaTeX.
local core = require "tessera.core"
local host = require "tessera.host"
local latex = require "tessera.desk.latex"
local published = require "tessera.desk.published"
local store = require "tessera.store"
local support = require "support"

local path

local function results(...)
  local status, out, err = host.run_program({ host.program, "results", "t/one", "--results", path, ... }, "")
  return out, err, status
end

local function lines_of(text)
  local found = {}
  for line in text:gmatch "[^\r\n]+" do found[#found + 1] = line end
  return found
end

-- c1 and c2 with the planners a and b; the paper lacks c2/b, and has quality alone.
local function fill()
  path = support.temporary()
  os.remove(path)
  local file = store.open(path)
  local run = file:start_run { experiment = "t/one", declaration = {
    doc = "One & only", keys = { "cluster", "planner" }, columns = { "speed_tok_s", "perplexity", "bits" },
    paper = { keys = { "cluster", "planner" }, columns = { "speed_tok_s", "perplexity", "note" }, rows = {
      { point = { cluster = "c1", planner = "a" }, speed_tok_s = 8, perplexity = 5.25, note = "word" },
      { point = { cluster = "c1", planner = "b" }, speed_tok_s = 12.5 },
      { point = { cluster = "c2", planner = "a" }, speed_tok_s = 30 },
    } },
  } }
  local speeds = { { "c1", "a", 10 }, { "c1", "b", 10.5 }, { "c2", "a", 20.25 }, { "c2", "b", 15 } }
  for _, row in ipairs(speeds) do
    file:add(run, { point = { cluster = row[1], planner = row[2] }, status = "optimal",
      columns = { speed_tok_s = row[3], bits = 4, peak_bytes = 2 ^ 31 } })
  end
  file:set_claims(run, { { text = "a is the faster", passed = true } })
  file:close()
end

describe("the published numbers", function()
  setup(fill)
  teardown(support.remove_files)

  it("stand beside ours in the table", function()
    assert.truthy(results():find(
      "cluster  planner  status   paper  speed_tok_s  diff     perplexity (paper)  bits  peak_bytes\n"
      .. "c1       a        optimal      8           10  +25.0 %                5.25     4  2147483648\n", 1, true))
  end)

  it("are not there where no row fits, which says what values there are", function()
    local out, err, status = results("--where", "cluster=c3")
    assert.equal(0, status)
    assert.truthy(err:find("tessera: no row has cluster = c3: there are c1, c2\n", 1, true), err)
    assert.is_nil(out:find("claim", 1, true))
    out, err = results("--where", "cluster=c1,c2", "--where", "bits=3,5", "--json")
    assert.truthy(err:find("no row has bits = 3 or 5: there are 4\n", 1, true), err)
    assert.same({}, core.from_json(out))
    err = select(2, results("--where", "planner=b", "--where", "speed_tok_s=10"))
    assert.truthy(err:find("none of the 4 rows fits\n", 1, true), err)
    err = select(2, results("--diff", "1,1", "--where", "cluster=c3"))
    assert.truthy(err:find("no row has cluster = c3: there are c1, c2\n", 1, true), err)
    status, out, err = host.run_program({ host.program, "plot", "t/one", "--results", path, "--where",
      "cluster=c3" }, "")
    assert.equal("", out)
    assert.equal(2, status)
    assert.truthy(err:find("--where: no row has cluster = c3: there are c1, c2\n", 1, true), err)
    assert.matches("\n1 of 1 claim passed\n", (results()))
    assert.matches("\n1 of 1 claim passed by all 4 points\n", (results("--where", "cluster=c1")))
  end)

  it("stand in CSV under names that --columns takes, as ratios", function()
    local lines = lines_of(results("--format", "csv"))
    assert.equal("cluster,planner,status,paper.speed_tok_s,speed_tok_s,diff.speed_tok_s,paper.perplexity,bits,"
      .. "peak_bytes", lines[1])
    assert.equal("c1,a,optimal,8,10,0.25,5.25,4,2147483648", lines[2])
    assert.equal("c2,b,optimal,,15,,,4,2147483648", lines[5])
  end)

  it("stand in Markdown as on the terminal, the best in bold", function()
    local lines = lines_of(results("--format", "markdown", "--columns", "planner,paper,speed_tok_s,diff", "--best",
      "speed_tok_s", "--best-per", "planner"))
    assert.equal("| planner | paper | speed\\_tok\\_s |    diff |", lines[1])
    assert.equal("| a       |     8 |            10 | +25.0 % |", lines[3])
    assert.equal("| a       |    30 |     **20.25** | -32.5 % |", lines[5])
    assert.equal("| b       |       |        **15** |         |", lines[6])
  end)

  it("stand in JSON below paper and diff", function()
    local rows = core.from_json((results "--json"))
    assert.same({ speed_tok_s = 8, perplexity = 5.25 }, rows[1].paper)
    assert.same({ speed_tok_s = 0.25 }, rows[1].diff)
    assert.is_nil(rows[4].paper)
    local few = core.from_json((results("--json", "--columns", "paper,speed_tok_s")))
    assert.same({ point = { cluster = "c1", planner = "a" }, status = "optimal", paper = { speed_tok_s = 8 },
      speed_tok_s = 10 }, few[1])
  end)

  it("are left out on demand, and asked for by name", function()
    assert.is_nil((results "--no-paper"):find("paper", 1, true))
    local _, why, status = results("--no-paper", "--columns", "paper")
    assert.equal(2, status)
    assert.truthy(why:find("no row has a column 'paper'", 1, true), why)
    assert.equal("perplexity (paper)", lines_of(results("--columns", "perplexity"))[3])
    assert.equal("paper.perplexity,paper.speed_tok_s",
      lines_of(results("--columns", "perplexity,paper.speed_tok_s", "--format", "csv"))[1])
    assert.equal("20.25", lines_of(results("--format", "csv", "--sort", "diff.speed_tok_s", "--columns",
      "speed_tok_s"))[2])
  end)
end)

describe("--columns", function()
  setup(fill)
  teardown(support.remove_files)

  it("is exactly the columns, in this order", function()
    for _, format in ipairs { "table", "csv", "markdown" } do
      local text = results("--format", format, "--columns", "bits,planner,cluster,speed_tok_s")
      local heading = lines_of(text)[format == "table" and 3 or 1]
      local names = {}
      for name in heading:gsub("\\", ""):gmatch "[%w_]+" do names[#names + 1] = name end
      assert.same({ "bits", "planner", "cluster", "speed_tok_s" }, names, format)
    end
  end)
end)

describe("LaTeX", function()
  setup(fill)
  teardown(support.remove_files)

  it("has rules, aligned numbers, units, caption, label and the best in bold", function()
    local text = results("--format", "latex", "--best", "speed_tok_s,bits=lower", "--best-per", "cluster")
    assert.equal("% Needs \\usepackage{booktabs} and \\usepackage{siunitx} (its version 3, in TeX Live since 2021).",
      lines_of(text)[2])
    assert.truthy(text:find([[
\begin{table}
\centering
\caption{One \& only}
\label{tab:t-one}
\begin{tabular}{
  l
  l
  l
  S[table-format = 2.1]
  S[table-format = 2.2, detect-weight]
  S[table-format = +2.1, retain-explicit-plus]
  S[table-format = 1.2]
  S[table-format = 1.0, detect-weight]
  S[table-format = 1.0]
}
\toprule
cluster & planner & status & {paper} & {speed (tok/s)} & {diff (\%)} & {perplexity, paper} & {bits} & {peak (GiB)} \\
\midrule
c1 & a & optimal & 8 & 10.00 & +25.0 & 5.25 & \bfseries 4 & 2 \\
c1 & b & optimal & 12.5 & \bfseries 10.50 & -16.0 & {--} & \bfseries 4 & 2 \\
c2 & a & optimal & 30 & \bfseries 20.25 & -32.5 & {--} & \bfseries 4 & 2 \\
c2 & b & optimal & {--} & 15.00 & {--} & {--} & \bfseries 4 & 2 \\
\bottomrule
\end{tabular}
\end{table}
]], 1, true), text)
  end)

  local nasty = {
    columns = { "a_%b", "x_s", "omega" },
    lines = {
      { 'a|b, "c"\nd--e---f', 1 / 3, 1.5e-9 }, { "\\{$&#%_^~<>}", -2, 4e5 }, { "[x]", nil, nil }, { "é", 7, 0 / 0 },
    },
    best = { { [3] = true }, { [2] = true }, { [1] = true } },
  }

  it("has no commands of users", function()
    local text = latex.write(nasty, { caption = "50 % & #1_", label = "tab:x" })
    assert.truthy(text:find("\n\\textbackslash{}\\{\\$\\&\\#\\%\\_\\textasciicircum{}\\textasciitilde{}"
      .. "\\textless{}\\textgreater{}\\} & \\bfseries -2.000 & \\num{400000} \\\\\n", 1, true), text)
    assert.truthy(text:find("a\\textbar{}b, ''c'' d-{}-e-{}-{}-f & 0.333 & "
      .. "{\\bfseries\\num[detect-weight]{1.5e-09}}", 1, true), text)
    assert.truthy(text:find("\n\\textbf{[x]} & {--} & {--}", 1, true), "a missing value is a dash")
    assert.truthy(latex.write({ columns = { "a" }, lines = { { "[x]" } } }, {}):find("\n{}[x] \\\\", 1, true),
      "a bracket after the end of a line is its argument")
    assert.truthy(text:find("\\caption{50 \\% \\& \\#1\\_}\n\\label{tab:x}\n", 1, true))
    assert.is_nil(latex.write(nasty, { caption = "" }):find("table}", 1, true))
    assert.equal("tab:llmpq-table4", latex.label "llmpq/table4")
  end)

  it("compiles where pdflatex is installed", function()
    if host.run_program({ "sh", "-c", "command -v pdflatex" }, "") ~= 0 then
      pending "pdflatex is not installed"
      return
    end
    local folder = os.tmpname()
    os.remove(folder)
    host.make_folder(folder)
    local head = "\\documentclass{article}\\usepackage{booktabs,siunitx}\\begin{document}\n"
    core.write_file(folder .. "/t.tex", head
      .. latex.write(nasty, { caption = "c" }) .. results("--format", "latex", "--best", "all") .. "\\end{document}\n")
    local command = ("cd '%s' && pdflatex -draftmode -halt-on-error t.tex"):format(folder)
    local status, out = host.run_program({ "sh", "-c", command }, "")
    host.run_program({ "rm", "-rf", folder }, "")
    assert.equal(0, status, out)
  end)

  it("refuses what belongs to it elsewhere, and columns that it cannot judge", function()
    local function refused(text, ...)
      local _, why, status = results(...)
      assert.equal(2, status)
      assert.truthy(why:find(text, 1, true), why)
    end
    refused("--caption: only --format latex has one", "--caption", "x")
    refused("--best: it belongs to --format latex or markdown", "--best", "all", "--format", "csv")
    refused("--best-per: it belongs to --best", "--best-per", "cluster", "--format", "latex")
    refused("say bits=lower or bits=higher", "--best", "bits", "--format", "latex")
    refused("did you mean 'speed_tok_s'", "--best", "sped_tok_s", "--format", "latex")
    refused("lower or higher belongs behind =", "--best", "bits=most", "--format", "latex")
  end)
end)

describe("tessera.desk.published", function()
  it("takes no harm from what is no table of a paper", function()
    assert.is_nil(published.of(nil))
    assert.is_nil(published.of { rows = 3, keys = {} })
    assert.is_nil(published.of { rows = { 1 }, keys = {} })
    assert.is_nil(published.of { rows = { { point = {}, x = "word" } }, keys = {}, columns = { "x" } })
  end)

  it("tells a number from the word that reads like it", function()
    local of = published.of { keys = { "n" }, columns = { "x" }, rows = { { point = { n = 4 }, x = 1 } } }
    assert.same({}, of.row { n = "4" })
    assert.equal(1, of.row({ n = 4 }).x)
  end)
end)
