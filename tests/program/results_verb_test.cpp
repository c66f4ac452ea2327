// `tessera results` as a user calls it.

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "program.h"
#include "results_journal.h"

namespace tessera::test::results_verb_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

class ResultsVerb : public FolderTest {
 protected:
  ResultsVerb() {
    fill("r.db", R"lua(
local run = db:start_run { experiment = "llmpq/table4", script_hash = ("ab"):rep(32), seed = 3,
  declaration = { doc = "Throughput", keys = { "cluster", "planner" }, columns = { "throughput_tok_s" } } }
for i, cluster in ipairs { "c1", "c3" } do
  db:add(run, { point = { cluster = cluster, planner = "exact" }, status = "optimal",
    columns = { throughput_tok_s = 10.5 * i, note = "a|b_c, \"d\"" } })
end
db:add(run, { point = { cluster = "c3", planner = "uniform" }, status = "crashed", error = "signal 11\nin CBC",
  traceback = "stack traceback:\n\tx.lua:3", log = "starting\n" })
db:set_claims(run, { { passed = true, text = "exact is best" }, { passed = false, text = "within 15 %", numbers = "21 %" },
  { text = "fast" } })
)lua");
  }

  void fill(const std::string& name, const std::string& code) {
    const Process p = run_program(
        {"-e", "local db = require('tessera.store').open('" + path(name) + "')\n" + code});
    ASSERT_EQ(p.status, 0) << p.err;
  }
  Process results(std::vector<std::string> words) {
    words.insert(words.begin(), "results");
    ProcessSetup setup;
    setup.directory = folder_.string();
    return run_program(words, std::move(setup));
  }
  std::string shown(std::vector<std::string> words) {
    words.insert(words.end(), {"--results", "r.db"});
    const Process p = results(std::move(words));
    EXPECT_EQ(p.status, 0) << p.err;
    return p.out;
  }
  void refused(std::vector<std::string> words, int status, const std::string& text) {
    words.insert(words.end(), {"--results", "r.db"});
    const Process p = results(std::move(words));
    expect_refusal(p, status, text);
    EXPECT_EQ(p.out, "");
  }
};

TEST_F(ResultsVerb, ListsExperiments) {
  const std::string text = shown({});
  EXPECT_THAT(
      text, StartsWith("experiment    runs  points  failed  claims                    last change\n"
                       "llmpq/table4     1       3       1  1 of 3 passed, 1 skipped  20"));
  const Json list = Json::parse(shown({"--json"}));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["experiment"], "llmpq/table4");
  EXPECT_EQ(list[0]["points"], 3);
  EXPECT_EQ(list[0]["failed"], 1);
  EXPECT_EQ(list[0]["claims_passed"], 1);
}

TEST_F(ResultsVerb, ShowsRowsFailuresAndClaims) {
  const std::string text = shown({"llmpq/table4"});
  EXPECT_THAT(text, StartsWith("llmpq/table4, run 1: 20"));
  EXPECT_THAT(text, HasSubstr(" UTC, script abababababab, 3 points, 1 failed\nThroughput\n\n"
                              "cluster  planner  status   throughput_tok_s  note\n"
                              "c1       exact    optimal              10.5  a|b_c, \"d\"\n"
                              "c3       exact    optimal                21  a|b_c, \"d\"\n"
                              "c3       uniform  crashed                 -  -\n"
                              "\n"
                              "crashed cluster=c3 planner=uniform: signal 11\n  in CBC\n"
                              "\n"
                              "1 of 3 claims passed, 1 skipped\n"
                              "  pass  exact is best\n"
                              "  FAIL  within 15 %: 21 %\n"
                              "  skip  fast\n"));
}

TEST_F(ResultsVerb, PrintsOneJsonArray) {
  EXPECT_EQ(Json::parse(shown({"llmpq/table4", "--json"})), Json::parse(R"([
    {"point": {"cluster": "c1", "planner": "exact"}, "status": "optimal",
     "note": "a|b_c, \"d\"", "throughput_tok_s": 10.5},
    {"point": {"cluster": "c3", "planner": "exact"}, "status": "optimal",
     "note": "a|b_c, \"d\"", "throughput_tok_s": 21},
    {"point": {"cluster": "c3", "planner": "uniform"}, "status": "crashed",
     "error": "signal 11\nin CBC"}])"));
  EXPECT_EQ(shown({"llmpq/table4", "--json"}), shown({"llmpq/table4", "--format", "json"}));
  EXPECT_EQ(Json::parse(shown({"llmpq/table4", "--json", "--columns", "note", "--limit", "1"})),
            Json::parse(R"([{"point": {"cluster": "c1", "planner": "exact"}, "status": "optimal",
                             "note": "a|b_c, \"d\""}])"));
  EXPECT_EQ(Json::parse(shown({"llmpq/table4", "--json", "--meta"}))[0]["meta"]["seed"], 3);
}

TEST_F(ResultsVerb, ExportsCsvMarkdownAndLatex) {
  EXPECT_EQ(shown({"llmpq/table4", "--format", "csv"}),
            "cluster,planner,status,throughput_tok_s,note,error\r\n"
            "c1,exact,optimal,10.5,\"a|b_c, \"\"d\"\"\",\r\n"
            "c3,exact,optimal,21,\"a|b_c, \"\"d\"\"\",\r\n"
            "c3,uniform,crashed,,,\"signal 11\nin CBC\"\r\n");
  EXPECT_EQ(shown({"llmpq/table4", "--format", "markdown", "--columns", "throughput_tok_s"}),
            "| throughput\\_tok\\_s |\n"
            "| -----------------: |\n"
            "|               10.5 |\n"
            "|                 21 |\n"
            "|                    |\n");
  EXPECT_THAT(shown({"llmpq/table4", "--format", "latex", "--columns", "throughput_tok_s,note",
                     "--limit", "1", "--caption", ""}),
              testing::EndsWith("\\begin{tabular}{\n  S[table-format = 2.2]\n  l\n}\n\\toprule\n"
                                "{throughput (tok/s)} & note \\\\\n\\midrule\n"
                                "10.50 & a\\textbar{}b\\_c, ''d'' \\\\\n"
                                "\\bottomrule\n\\end{tabular}\n"));
  EXPECT_EQ(shown({"llmpq/table4", "--format", "csv", "--out", "t.csv"}), "");
  EXPECT_THAT(read(path("t.csv")), StartsWith("cluster,planner,"));
}

TEST_F(ResultsVerb, FiltersAndSorts) {
  const auto values = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"llmpq/table4", "--json"});
    std::string text;
    for (const Json& row : Json::parse(shown(words))) {
      text += row["point"]["cluster"].get<std::string>() + "/" +
              row["point"]["planner"].get<std::string>() + " ";
    }
    return text;
  };
  EXPECT_EQ(values({"--where", "cluster=c3"}), "c3/exact c3/uniform ");
  EXPECT_EQ(values({"--where", "cluster=c3,c1", "--where", "planner=exact"}), "c1/exact c3/exact ");
  EXPECT_EQ(values({"--where", "throughput_tok_s=21.0"}), "c3/exact ");
  EXPECT_EQ(values({"--where", "status=crashed,optimal"}), "c1/exact c3/exact c3/uniform ");
  EXPECT_EQ(values({"--sort", "-throughput_tok_s"}), "c3/exact c1/exact c3/uniform ");
  EXPECT_EQ(values({"--sort", "planner", "--limit", "2"}), "c1/exact c3/exact ");
  EXPECT_EQ(values({"--failed"}), "c3/uniform ");
  const Process none =
      results({"llmpq/table4", "--where", "cluster=c9", "--json", "--results", "r.db"});
  EXPECT_EQ(none.status, 0);
  EXPECT_EQ(none.out, "[]\n");
  EXPECT_THAT(none.err, HasSubstr("no row has cluster = c9: there are c1, c3"));
}

TEST_F(ResultsVerb, ShowsFailuresAtLength) {
  EXPECT_THAT(shown({"llmpq/table4", "--failed"}),
              HasSubstr("crashed cluster=c3 planner=uniform: signal 11\n  in CBC\n  traceback:\n"
                        "    stack traceback:\n    \tx.lua:3\n  log:\n    starting\n"));
}

TEST_F(ResultsVerb, ComparesRunsAndFiles) {
  const std::string second = R"lua(
local run = db:start_run { experiment = "llmpq/table4" }
db:add(run, { point = { cluster = "c1", planner = "exact" }, status = "optimal",
  columns = { throughput_tok_s = 12.6, note = "a|b_c, \"d\"" } })
)lua";
  fill("r.db", second);
  fill("other.db", second);
  const std::string table =
      "1 changed, 2 only in the first, 0 only in the second\n\n"
      "cluster  planner  column             old   new  difference\n"
      "c1       exact    throughput_tok_s  10.5  12.6  +20 %\n\nonly in run 1:\n";
  EXPECT_THAT(shown({"llmpq/table4", "--diff", "1,2"}), HasSubstr("run 1 against run 2: 0 rows"));
  EXPECT_THAT(shown({"llmpq/table4", "--diff", "1,2"}), HasSubstr(table));
  EXPECT_THAT(shown({"llmpq/table4", "--diff", "1"}), HasSubstr(table));
  EXPECT_THAT(shown({"llmpq/table4", "--diff", "1,other.db"}), HasSubstr(table));
  EXPECT_THAT(shown({"llmpq/table4", "--diff", "other.db"}), HasSubstr("1 rows the same"));
  const Json diff = Json::parse(shown({"llmpq/table4", "--diff", "1,2", "--json"}));
  EXPECT_EQ(diff["changed"][0]["old"], 10.5);
  EXPECT_EQ(diff["only_old"].size(), 2u);
  EXPECT_THAT(shown({"llmpq/table4", "--diff", "1,2", "--format", "csv"}),
              HasSubstr("c1,exact,throughput_tok_s,10.5,12.6,+20 %\r\n"));
}

TEST_F(ResultsVerb, MergesShards) {
  for (const char* name : {"a", "b", "c"}) {
    fill(std::string(name) + ".db", std::string(R"lua(
local run = db:start_run { experiment = "s", script_hash = "h", shard = "x" }
db:add(run, { point = { name = "all" }, columns = { v = 1 } })
db:add(run, { point = { name = ")lua") + name +
                                        R"lua(" } })
)lua");
  }
  const Process p = results({"--merge", "a.db,b.db", "c.db", "--results", "all.db"});
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_EQ(p.out,
            "merged 3 files into all.db: 4 rows added (1 new run), 0 replaced, 2 duplicates left "
            "out\n");
  fill("c.db", "db:add(1, { point = { name = 'all' }, columns = { v = 2 }, replace = true })");
  const Process contradicting = results({"--merge", "a.db,c.db", "--results", "new.db"});
  EXPECT_EQ(contradicting.status, 1);
  EXPECT_THAT(contradicting.err, HasSubstr("s           {\"name\":\"all\"}  c.db"));
  EXPECT_THAT(contradicting.err,
              HasSubstr("disagree on 1 point; nothing was merged. Choose with --prefer first"));
  const Process chosen =
      results({"--merge", "a.db,c.db", "--results", "new.db", "--prefer", "last", "--json"});
  EXPECT_EQ(Json::parse(chosen.out)["num_replaced"], 1);
}

// A log beside the file would be lost by whoever copies the file alone.
TEST_F(ResultsVerb, AScriptLeavesOneFileHoweverItEnds) {
  for (const char* end : {"", "os.exit(3)", "error('no')"}) {
    const std::string name = "end" + std::string(end).substr(0, 2) + ".db";
    const Process p = run_program(
        {"-e", "local r = require('tessera').results('e', { db = '" + path(name) + "' })\n" +
                   "for i = 1, 5 do r:add({ i = i }, { v = i }) end\n" + end});
    EXPECT_FALSE(std::filesystem::exists(path(name + "-wal"))) << end << p.err;
    EXPECT_EQ(Json::parse(results({"e", "--json", "--results", name}).out).size(), 5u) << end;
  }
}

TEST_F(ResultsVerb, RefusesWithTheWayOut) {
  refused({"llmpq/tabel4"}, 1, "no experiment 'llmpq/tabel4'; did you mean 'llmpq/table4'?");
  refused({"llmpq/table4", "--run", "7"}, 1, "has no run 7; it has 1");
  refused({"llmpq/table4", "--where", "clustr=c1"}, 2, "did you mean 'cluster'");
  refused({"llmpq/table4", "--where", "c1"}, 2, "not of the form key=value");
  refused({"llmpq/table4", "--columns", "throughput"}, 2, "did you mean 'throughput_tok_s'");
  refused({"llmpq/table4", "--sort", "nothing"}, 2, "--sort: no row has a column 'nothing'");
  refused({"llmpq/table4", "--format", "word"}, 2, "--format");
  refused({"llmpq/table4", "--diff", "1,2,3"}, 2, "--diff");
  refused({"llmpq/table4", "--diff", "1,none.db"}, 1, "none.db");
  refused({"llmpq/table4", "--prefer", "first"}, 2, "belongs to --merge");
  refused({"--diff", "1,2"}, 2, "name the experiment");
  refused({"a", "b"}, 2, "one experiment at a time");
  refused({"llmpq/table4", "--out", "no/such/folder.csv"}, 1, "no/such/folder.csv");
  const Process none = results({});
  expect_refusal(none, 1,
                 "'results.db': does not exist; `tessera run EXPERIMENT.lua --results FILE`");
  EXPECT_FALSE(std::filesystem::exists(path("results.db")));
}

TEST_F(ResultsVerb, NamesOfUsersAreNames) {
  fill("r.db", R"lua(
for _, name in ipairs { "x'; DROP TABLE runs; --", "a\"b", "$(reboot)", "new\nline" } do
  db:add(db:start_run { experiment = name }, { point = { [name] = name }, columns = { ["c " .. name] = name } })
end)lua");
  for (const std::string name : {"x'; DROP TABLE runs; --", "a\"b", "$(reboot)", "new\nline"}) {
    const Json rows = Json::parse(shown({name, "--json"}));
    EXPECT_EQ(rows[0]["point"][name], name);
    EXPECT_EQ(rows[0]["c " + name], name);
    for (const char* format : {"table", "csv", "markdown", "latex"}) {
      EXPECT_NE(shown({name, "--format", format}), "");
    }
  }
  EXPECT_EQ(Json::parse(shown({"--json"})).size(), 5u);
}

// What a sandboxed script leaves in its output folder does nothing to who opens it later.
TEST_F(ResultsVerb, AJournalFromTheSandboxRemovesNoFile) {
  const std::string victim = file("precious.txt", "precious\n");
  std::string bytes;
  for (const char c : journal_that_removes(victim, 13)) {
    bytes += "\\" + std::to_string(static_cast<unsigned char>(c) + 1000).substr(1);
  }
  file("plant.lua", R"lua(local ts = require "tessera"
return ts.experiment { name = "p", grid = { i = { 1 } }, run = function()
  local out = assert(io.open("plant-out/results.db-journal", "wb"))
  out:write(")lua" + bytes +
                        R"lua(")
  out:close()
  return { v = 1 }
end }
)lua");
  file("mine.lua",
       "return require 'tessera'.experiment { name = 'm', grid = { i = { 1 } }, run = function() "
       "return { v = 1 } end }\n");
  const auto run = [&](std::vector<std::string> words) {
    ProcessSetup setup;
    setup.directory = folder_.string();
    return run_program(words, std::move(setup));
  };
  run({"run", "--sandbox", "plant.lua"});
  ASSERT_TRUE(std::filesystem::exists(path("plant-out/results.db-journal")));
  const std::string db = "plant-out/results.db";
  for (std::vector<std::string> words :
       {std::vector<std::string>{"run", "mine.lua", "--jobs", "0", "--results", db},
        {"results", "--results", db},
        {"report", "--results", db},
        {"results", "--merge", "r.db", "--results", db},
        {"run", "--sandbox", "mine.lua", "--sandbox-out", "plant-out"}}) {
    const Process p = run(words);
    EXPECT_EQ(p.status, 1) << words[0];
    EXPECT_THAT(p.err, HasSubstr("results.db-journal' lies beside it")) << words[0];
    EXPECT_THAT(p.err, HasSubstr("Remove it")) << words[0];
    EXPECT_EQ(read(victim), "precious\n") << words[0];
  }
}

TEST_F(ResultsVerb, APipeInPlaceOfAFileIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo(path("pipe.db").c_str(), 0600), 0);
  const std::string db = "{ db = '" + path("pipe.db") + "' }";
  const Process p = run_program({"-e", "require 'tessera'.results('e', " + db + "):has { i = 1 }"});
  expect_refusal(p, 1, "is no regular file");
}

TEST_F(ResultsVerb, TextIsNoFormulaInASpreadsheet) {
  fill("f.db", R"lua(
local run = db:start_run { experiment = "f", declaration = { keys = { "k" } } }
db:add(run, { point = { k = "=1+1" }, columns = { a = "+cmd|x", b = "-1+2", c = "@x", d = "\tx", e = -1.5, g = "-3",
  h = "+20 %", i = "plain" } })
)lua");
  const Process p = results({"f", "--format", "csv", "--results", "f.db"});
  EXPECT_EQ(p.status, 0) << p.err;
  EXPECT_THAT(p.out, HasSubstr("'=1+1,done,'+cmd|x,'-1+2,'@x,'\tx,-1.5,-3,+20 %,plain\r\n"));
}

TEST_F(ResultsVerb, ReadsNoMoreRowsThanItShows) {
  fill("broken.db", R"lua(
local run = db:start_run { experiment = "b" }
for i = 1, 5 do db:add(run, { point = { i = i }, columns = { v = i } }) end
)lua");
  EXPECT_THAT(results({"b", "--limit", "2", "--results", "broken.db"}).out, HasSubstr("5 points"));
  EXPECT_THAT(results({"b", "--limit", "2", "--json", "--results", "broken.db"}).out,
              testing::Not(HasSubstr("\"v\": 3")));
  const Process sorted =
      results({"b", "--limit", "1", "--sort", "-v", "--json", "--results", "broken.db"});
  EXPECT_THAT(sorted.out, HasSubstr("\"v\": 5"));
}

}  // namespace
}  // namespace tessera::test::results_verb_test
