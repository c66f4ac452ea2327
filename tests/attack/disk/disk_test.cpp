// Every writer of the program where writing fails: the file that was there stays byte for byte,
// the message says why, the exit status is not 0, and nothing else is left behind.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "case_name.h"
#include "private_mounts.h"
#include "program.h"

namespace tessera::test::disk_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

// A file that comes out of the program. FILE and DB in `words` are its path and a results file.
struct Writer {
  const char* name;
  const char* file;
  Words words;
  const char* old = "old";  // what the file holds before; indicators replace nothing else
};
void PrintTo(const Writer& writer, std::ostream* stream) { *stream << writer.name; }

// Runs code that has a problem and a plan, and a path as `...`.
Writer by_code(const char* name, const char* file, const std::string& code,
               const char* old = "old") {
  const std::string prelude =
      "local ts, file = require 'tessera', ... "
      "local problem = ts.problem { model = 'opt-125m', cluster = '2xT4-16G', theta = 1, bitwidths "
      "= { 8, 16 }, workload = { prompt_tokens = 64, output_tokens = 8, batch_size = 4 } } "
      "local plan = assert(ts.plan(problem, { planner = 'uniform' })) "
      "local sizes = { prefill_micro_batch_size = 2, decode_micro_batch_size = 4 } "
      "local plot = { kind = 'bars', rows = { { a = 'x', b_s = 1 }, { a = 'y', b_s = 2 } }, x = "
      "'a', y = 'b_s' } ";
  return {name, file, {"-e", prelude + code, "FILE"}, old};
}

const Words kPlan = {"plan", "--model", "opt-125m", "--cluster", "2xT4-16G"};
Words plan_with(const char* flag) {
  Words words = kPlan;
  words.insert(words.end(), {flag, "FILE"});
  return words;
}

constexpr const char* kOldIndicator = R"([{"3": 0.5, "4": 0.25}])";

std::vector<Writer> writers() {
  std::vector<Writer> all = {
      by_code("plan", "plan.json", "plan:save(file)"),
      by_code("picture_svg", "plan.svg", "ts.picture(plan, file)"),
      by_code("trace", "trace.json", "ts.simulate(plan):save_trace(file)"),
      by_code("indicator", "indicator.json", "ts.indicator { model = 'opt-125m' }:save(file)",
              kOldIndicator),
      by_code("plot_svg", "plot.svg", "ts.plot(plot):save(file)"),
      by_code("plot_txt", "plot.txt", "ts.plot(plot):save(file)"),
      by_code("model_lp", "model.lp",
              "assert(problem:with { use_all_devices = true }:write_model(file, sizes))"),
      by_code("model_mps", "model.mps",
              "assert(problem:with { use_all_devices = true }:write_model(file, sizes))"),
      by_code("text", "text", "require('tessera.core').write_file(file, ('x'):rep(1e5))"),
      {"verb_plan", "plan.json", plan_with("--save")},
      {"verb_picture", "plan.svg", plan_with("--picture")},
      {"verb_report", "report.html", {"report", "d/x", "--results", "DB", "--out", "FILE"}},
      {"verb_results",
       "rows.json",
       {"results", "d/x", "--results", "DB", "--out", "FILE", "--format", "json"}}};
  if (std::system("rsvg-convert --version >/dev/null 2>&1") == 0)
    all.push_back(by_code("plot_png", "plot.png", "ts.plot(plot):save(file)"));
  return all;
}

class Disk : public FolderTest {
 protected:
  void SetUp() override {
    if (!private_mounts().empty()) GTEST_SKIP() << private_mounts();
    fs::create_directory(path("disk"));
  }

  // A results file with long texts in its rows, on no small disk.
  std::string database() const {
    const std::string script = file(
        "x.lua",
        "return require('tessera').experiment { name = 'd/x', doc = 'd', grid = { i = { 1, 2 } }, "
        "run = function(point) return { x_s = point.i, text = ('long '):rep(1000) } end }");
    const Process p = run_program({"run", script, "--jobs", "0", "--results", path("x.db")});
    EXPECT_EQ(p.status, 0) << p.err;
    return path("x.db");
  }

  Words words_for(const Writer& writer, const std::string& target) const {
    Words words = writer.words;
    std::replace(words.begin(), words.end(), std::string("FILE"), target);
    if (std::count(words.begin(), words.end(), "DB") > 0)
      std::replace(words.begin(), words.end(), std::string("DB"), database());
    return words;
  }

  // Writes until nothing more fits, then gives `pages` back.
  void fill(const std::string& folder, int pages) const {
    const std::string filler = folder + "/filler";
    const int fd = ::open(filler.c_str(), O_WRONLY | O_CREAT, 0600);
    off_t size = 0;
    for (const std::string page(4096, 'x'); ::write(fd, page.data(), page.size()) == 4096;)
      size += 4096;
    EXPECT_EQ(::ftruncate(fd, size - off_t{4096} * pages), 0);
    ::close(fd);
  }

  static std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  // Writes over "disk/NAME", which holds what it did, and expects that it cannot.
  void expect_kept(const Writer& writer, const std::vector<std::string>& names,
                   const std::vector<std::string>& reasons, const ProcessSetup& setup = {}) const {
    const std::string target = path("disk/") + writer.file;
    const Process p = run_program(words_for(writer, target), setup);
    EXPECT_EQ(p.status, 1) << p.out << p.err;
    EXPECT_THAT(p.err, HasSubstr("cannot write '" + target + "'"));
    EXPECT_THAT(
        reasons,
        testing::Contains(testing::ResultOf(
            [&](const std::string& reason) { return p.err.find(reason) != std::string::npos; },
            true)))
        << p.err;
    EXPECT_EQ(read(target), writer.old);
    EXPECT_EQ(names_in(path("disk")), names);
  }

  // Whether the file is so small that one free page is room enough.
  bool fits_a_page(const Writer& writer) const {
    fs::create_directory(path("roomy"));
    const std::string target = path("roomy/") + writer.file;
    const Process p = run_program(words_for(writer, target));
    EXPECT_EQ(p.status, 0) << p.err;
    return fs::file_size(target) <= 4096;
  }
};

class WriterOnDisk : public Disk, public testing::WithParamInterface<Writer> {};

TEST_P(WriterOnDisk, KeepsTheOldFileWhereTheDiskIsFull) {
  const Writer& writer = GetParam();
  for (const int free_pages : {0, 1}) {
    SmallDisk disk(path("disk"), 64);
    if (!disk.obstacle().empty()) GTEST_SKIP() << disk.obstacle();
    file(std::string("disk/") + writer.file, writer.old);
    fill(path("disk"), free_pages);
    std::vector<std::string> names = {"filler", writer.file};
    std::sort(names.begin(), names.end());
    if (free_pages > 0 && fits_a_page(writer)) continue;
    expect_kept(writer, names, {"No space left on device", "that closes a model; the disk has"});
  }
}

TEST_P(WriterOnDisk, KeepsTheOldFileUnderALimitOnSizes) {
  const Writer& writer = GetParam();
  const Words words = words_for(writer, path("disk/") + writer.file);  // makes its database
  file(std::string("disk/") + writer.file, writer.old);
  ProcessSetup setup;
  setup.in_child = [] {
    const rlimit limit{256, 256};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  expect_kept(writer, {writer.file}, {"File too large", "files are limited to 256 B (ulimit -f)"},
              setup);
}

TEST_P(WriterOnDisk, KeepsTheOldFileWhereNothingMayBeWritten) {
  const Writer& writer = GetParam();
  SmallDisk disk(path("disk"), 64);
  if (!disk.obstacle().empty()) GTEST_SKIP() << disk.obstacle();
  file(std::string("disk/") + writer.file, writer.old);
  ASSERT_TRUE(disk.make_read_only());
  expect_kept(writer, {writer.file}, {"Read-only file system"});
}

// Scratch files lie beside the target: what TMPDIR says changes nothing.
TEST_P(WriterOnDisk, NeedsNoOtherDisk) {
  const Writer& writer = GetParam();
  SmallDisk disk(path("disk"), 16);
  if (!disk.obstacle().empty()) GTEST_SKIP() << disk.obstacle();
  fill(path("disk"), 0);
  const std::string target = path(writer.file);
  std::vector<std::uintmax_t> sizes;
  for (const std::string& folder : {path("."), path("disk"), path("none"), std::string("/proc")}) {
    fs::remove(target);
    const Process p = run_program(words_for(writer, target), {.environment = {{"TMPDIR", folder}}});
    EXPECT_EQ(p.status, 0) << folder << p.err;
    ASSERT_TRUE(fs::exists(target)) << folder;
    sizes.push_back(fs::file_size(target));
    EXPECT_EQ(names_in(path("disk")), Words{"filler"});
  }
  for (const std::uintmax_t size : sizes) EXPECT_NEAR(size, sizes.front(), 200);  // times in them
}

INSTANTIATE_TEST_SUITE_P(Writers, WriterOnDisk, testing::ValuesIn(writers()), case_name);

class QuantisedModel : public Disk {
 protected:
  // Writes "disk/out"; `more` are further options.
  Process quantise(const std::string& more, const ProcessSetup& setup = {}) const {
    const std::string model =
        std::string(TESSERA_SOURCE_DIR) + "/experiments/indicator/data/tiny_llama";
    return run_program({"-e",
                        "local model, out = ... require('tessera').quantise_model { model = "
                        "model, out = out, bitwidths = 4, group_size = 8, overwrite = true, " +
                            more + " }",
                        model, path("disk/out")},
                       setup);
  }

  std::map<std::string, std::string> result() const {
    std::map<std::string, std::string> files;
    for (const std::string& name : names_in(path("disk/out")))
      files[name] = read(path("disk/out/") + name);
    return files;
  }

  void expect_kept(const std::vector<std::string>& names, const std::string& reason,
                   const ProcessSetup& setup = {}) const {
    const auto before = result();
    const Process p = quantise("", setup);
    EXPECT_EQ(p.status, 1) << p.err;
    EXPECT_THAT(p.err, HasSubstr("cannot write '" + path("disk/out")));
    EXPECT_THAT(p.err, HasSubstr(reason));
    EXPECT_EQ(result(), before);
    EXPECT_EQ(names_in(path("disk")), names);
  }
};

TEST_F(QuantisedModel, IsKeptWhereWritingFails) {
  SmallDisk disk(path("disk"), 4096);
  if (!disk.obstacle().empty()) GTEST_SKIP() << disk.obstacle();
  ASSERT_EQ(quantise("").status, 0);
  ProcessSetup limited;
  limited.in_child = [] {
    const rlimit limit{256, 256};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  expect_kept({"out"}, "File too large", limited);
  fill(path("disk"), 4);
  expect_kept({"filler", "out"}, "the disk has 16.0 KiB left");
  ASSERT_TRUE(disk.make_read_only());
  expect_kept({"filler", "out"}, "Read-only file system");
}

TEST_F(QuantisedModel, WhatAKilledRunLeftIsRemovedAndALiveOneIsNot) {
  const std::string pause =
      "progress = function(n) if n == 2 then io.stderr:write 'at work\\n' "
      "while true do end end end";
  ProcessSetup killed;
  killed.wait_for = "at work";
  killed.then = [&](pid_t id) {
    const Process beside = quantise("");
    EXPECT_EQ(beside.status, 0) << beside.err;
    EXPECT_EQ(beside.err, "");
    EXPECT_THAT(names_in(path("disk")), ElementsAre("out", testing::StartsWith("out.partial.")));
    kill(id, SIGKILL);
  };
  EXPECT_EQ(quantise(pause, killed).status, 128 + SIGKILL);
  const auto before = result();
  ASSERT_EQ(names_in(path("disk")).size(), 2u);
  const Process next = quantise("");
  EXPECT_EQ(next.status, 0) << next.err;
  EXPECT_THAT(next.err, testing::MatchesRegex("tessera: removed '[^']*/out\\.partial\\.[^']*' "
                                              "\\([^)]*B\\), which a process that was killed "
                                              "had left\n"));
  EXPECT_EQ(names_in(path("disk")), Words{"out"});
  EXPECT_EQ(result(), before);
}

}  // namespace
}  // namespace tessera::test::disk_test
