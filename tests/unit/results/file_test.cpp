// Files that are no results files, or damaged, or not to be touched.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect_error.h"
#include "mutate.h"
#include "results_files.h"
#include "tessera/results/store.h"

namespace tessera::results::file_test {
namespace {

using test::all_rows;
using test::expect_error;
using test::row_of;
using test::run_of;
using test::run_sql;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class ResultsFile : public test::ResultsFilesTest {
 protected:
  // Both ways of opening refuse the file in these words, and leave it as it is.
  void refused(const std::string& path, ErrorCode code, const std::vector<std::string>& parts) {
    const std::string before = read(path);
    const std::size_t files = num_files();
    expect_error(code, parts, [&] { Store(path, {.read_only = true}); });
    expect_error(code, parts, [&] { Store{path}; });
    EXPECT_EQ(read(path), before);
    EXPECT_EQ(num_files(), files);
  }
};

TEST_F(ResultsFile, SaysWhatIsMissing) {
  expect_error(ErrorCode::not_found, {"no.db", "does not exist", "tessera run"},
               [&] { Store(path("no.db"), {.read_only = true}); });
  expect_error(ErrorCode::not_found, {"does not exist"},
               [&] { Store(path("no.db"), {.create = false}); });
  for (const bool read_only : {false, true}) {
    expect_error(ErrorCode::not_found, {"the folder", "sub", "make it first"},
                 [&] { Store(path("sub/no.db"), {.read_only = read_only}); });
    expect_error(ErrorCode::io, {"is a folder"},
                 [&] { Store(folder_.string(), {.read_only = read_only}); });
    expect_error(ErrorCode::invalid_argument, {"no path"},
                 [&] { Store("", {.read_only = read_only}); });
    expect_error(ErrorCode::invalid_argument, {"no path"},
                 [&] { Store(std::string("a\0b", 3), {.read_only = read_only}); });
    expect_error(ErrorCode::io, {"no regular file"},
                 [&] { Store("/dev/null", {.read_only = read_only}); });
  }
  EXPECT_EQ(num_files(), 0u);
}

TEST_F(ResultsFile, RefusesWhatIsNoDatabase) {
  refused(file("a.txt", "model,layer\n1,2\n"), ErrorCode::io, {"a.txt", "no SQLite database"});
  refused(file("b.bin", std::string(5000, '\0')), ErrorCode::io, {"b.bin"});
  refused(file("c.db", "SQLite format 3"), ErrorCode::io, {"no SQLite database"});
}

TEST_F(ResultsFile, RefusesTheDatabaseOfAnotherProgram) {
  run_sql(path("other.db"), "CREATE TABLE runs (id); INSERT INTO runs VALUES (1)");
  refused(path("other.db"), ErrorCode::io, {"other.db", "another program"});
  run_sql(path("marked.db"), "PRAGMA application_id = 77");
  refused(path("marked.db"), ErrorCode::io, {"another program"});
}

TEST_F(ResultsFile, RefusesANewerFormat) {
  const std::string path = filled();
  run_sql(path, "PRAGMA journal_mode = DELETE; PRAGMA user_version = 99");
  refused(path, ErrorCode::unsupported, {"format 99", "up to 1", "newer tessera"});
}

TEST_F(ResultsFile, TakesAnEmptyFileForANewOne) {
  const std::string path = file("empty.db", "");
  expect_error(ErrorCode::not_found, {"is empty"}, [&] { Store(path, {.read_only = true}); });
  EXPECT_EQ(read(path), "");
  EXPECT_EQ(Store(path).start_run(run_of("e")), 1);
}

TEST_F(ResultsFile, NamesWithMeaningInUrisAreNames) {
  for (const char* name : {"a?mode=ro.db", "b#c.db", "%41.db", "sp ace é.db", "file:x"}) {
    filled(name);
    Store store(path(name), {.read_only = true});
    EXPECT_THAT(all_rows(store, 1), SizeIs(3)) << name;
  }
  EXPECT_EQ(num_files(), 5u);
}

TEST_F(ResultsFile, ReadingLeavesNoTrace) {
  const std::string path = filled();
  const std::string before = read(path);
  {
    Store store(path, {.read_only = true});
    EXPECT_THAT(all_rows(store, 1), SizeIs(3));
    EXPECT_EQ(num_files(), 1u);
    expect_error(ErrorCode::io, {"cannot be written"}, [&] { store.add(1, row_of("{}", "{}")); });
    EXPECT_THAT(all_rows(store, 1), SizeIs(3));
  }
  EXPECT_EQ(num_files(), 1u);
  EXPECT_EQ(read(path), before);
}

TEST_F(ResultsFile, AReaderSeesWhatIsAddedMeanwhile) {
  const std::string path = filled();
  Store reader(path, {.read_only = true});
  EXPECT_THAT(all_rows(reader, 1), SizeIs(3));
  {
    Store writer(path);
    writer.add(1, row_of(R"({"i": 100})", "{}"));
    EXPECT_THAT(all_rows(reader, 1), SizeIs(4));
    writer.add(1, row_of(R"({"i": 101})", "{}"));
    EXPECT_THAT(all_rows(reader, 1), SizeIs(5));
  }
  EXPECT_THAT(all_rows(reader, 1), SizeIs(5));
  Store(path).add(1, row_of(R"({"i": 102})", "{}"));
  EXPECT_THAT(all_rows(reader, 1), SizeIs(6));
}

TEST_F(ResultsFile, ADamagedFileIsAnErrorAndNothingWorse) {
  const std::string whole = read(filled("whole.db", 200));
  Rng rng(test::test_seed());
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bytes = whole;
    if (i % 3 == 0) {
      bytes.resize(
          static_cast<std::size_t>(rng.integer(1, static_cast<std::int64_t>(bytes.size()) - 1)));
    } else {
      for (int k = 0; k < 40; ++k) {
        bytes[static_cast<std::size_t>(
            rng.integer(i % 3 == 1 ? 0 : 4096, static_cast<std::int64_t>(bytes.size()) - 1))] =
            static_cast<char>(rng.integer(0, 255));
      }
    }
    const std::string path = file("damaged.db", bytes);
    try {
      Store store(path, {.read_only = i % 2 == 0});
      for (const results::Run& run : store.runs()) all_rows(store, run.id);
      if (i % 2 == 1) store.add(1, row_of(R"({"i": -1})", "{}"));
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(), HasSubstr("damaged.db"));
    }
    std::filesystem::remove(path + "-wal");
    std::filesystem::remove(path + "-shm");
  }
  EXPECT_GT(refused, 100) << "seed " << test::test_seed();
}

// What `body` throws when a user who may do nothing here calls it; "" for nothing. The tests may
// run as root, who may do everything.
std::string as_nobody(const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t pid = fork();
  if (pid == 0) {
    std::string message;
    if (geteuid() == 0 && setuid(65534) != 0) message = "cannot become another user";
    try {
      if (message.empty()) body();
    } catch (const Error& error) {
      message = error.what();
    }
    if (write(ends[1], message.data(), message.size()) < 0) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  std::string text(4096, '\0');
  const ssize_t n = ::read(ends[0], text.data(), text.size());
  close(ends[0]);
  waitpid(pid, nullptr, 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return text;
}

TEST_F(ResultsFile, SaysWhatMayNotBeWrittenOrRead) {
  const std::string path = filled();
  chmod(folder_.c_str(), 0755);
  chmod(path.c_str(), 0444);
  EXPECT_THAT(as_nobody([&] { Store{path}; }), HasSubstr("r.db': cannot be written"));
  EXPECT_EQ(as_nobody([&] {
              Store store(path, {.read_only = true});
              all_rows(store, 1);
            }),
            "");
  {  // what a killed writer leaves, on a disk that may only be read
    Store writer(path);
    writer.add(1, row_of(R"({"i": 100})", "{}"));
    std::filesystem::copy(path, this->path("copy.db"));
    std::filesystem::copy(path + "-wal", this->path("copy.db-wal"));
  }
  for (const char* name : {"copy.db", "copy.db-wal"}) chmod(this->path(name).c_str(), 0444);
  chmod(folder_.c_str(), 0555);
  EXPECT_THAT(as_nobody([&] { Store(this->path("copy.db"), {.read_only = true}); }),
              HasSubstr("has a log (FILE-wal)"));
  chmod(folder_.c_str(), 0777);
  EXPECT_EQ(as_nobody([&] {
              Store store(this->path("copy.db"), {.read_only = true});
              if (all_rows(store, 1).size() != 4) throw Error(ErrorCode::io, "not 4 rows");
            }),
            "");
  chmod(folder_.c_str(), 0755);
  chmod(path.c_str(), 0000);
  EXPECT_THAT(as_nobody([&] { Store(path, {.read_only = true}); }), HasSubstr("cannot be read"));
  chmod(path.c_str(), 0666);
  chmod(folder_.c_str(), 0555);
  EXPECT_THAT(as_nobody([&] { Store{path}; }), HasSubstr("folder cannot be written"));
  EXPECT_THAT(as_nobody([&] { Store{this->path("new.db")}; }),
              HasSubstr("folder cannot be written"));
  EXPECT_EQ(as_nobody([&] {
              Store store(path, {.read_only = true});
              all_rows(store, 1);
            }),
            "");
  chmod(folder_.c_str(), 0755);
}

std::vector<std::vector<std::string>> select(const std::string& path, const std::string& query) {
  sqlite3* connection = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  std::vector<std::vector<std::string>> rows;
  const int code = sqlite3_exec(
      connection, query.c_str(),
      [](void* into, int count, char** values, char** names) {
        auto& found = *static_cast<std::vector<std::vector<std::string>>*>(into);
        if (found.empty()) found.emplace_back(names, names + count);
        std::vector<std::string> row;
        for (int i = 0; i < count; ++i) row.emplace_back(values[i] == nullptr ? "NULL" : values[i]);
        found.push_back(row);
        return 0;
      },
      &rows, nullptr);
  EXPECT_EQ(code, SQLITE_OK) << sqlite3_errmsg(connection) << " in " << query;
  sqlite3_close(connection);
  return rows;
}

TEST_F(ResultsFile, AViewShowsKeysAndColumnsToSql) {
  {
    Store store(path("r.db"));
    RunSpec spec = run_of("llmpq/table4");
    spec.declaration = Json::parse(R"({"keys": ["planner", "cluster"], "columns": ["z"]})");
    const std::int64_t run = store.start_run(spec);
    store.add(run, row_of(R"({"cluster": "a", "planner": "exact"})", R"({"b": 2.5, "z": "x"})"));
    Row failed = row_of(R"({"cluster": "b", "planner": "exact"})", "{}");
    failed.error = "no";
    store.add(run, failed);
  }
  EXPECT_EQ(select(path("r.db"), "SELECT * FROM \"rows:llmpq/table4\"").at(0),
            (std::vector<std::string>{"run_id", "planner", "cluster", "status", "z", "b", "error",
                                      "provenance", "error_ratio", "started_at", "duration_s"}));
  EXPECT_EQ(select(path("r.db"), "SELECT cluster, z, b, error FROM \"rows:llmpq/table4\"").at(2),
            (std::vector<std::string>{"b", "NULL", "NULL", "no"}));
}

TEST_F(ResultsFile, NamesOfUsersStayNamesInSql) {
  const std::vector<std::string> names = {"a\"b",
                                          "a'b",
                                          "x'; DROP TABLE points; --",
                                          "A\"; --",
                                          "",
                                          "$.x",
                                          "a.b[0]",
                                          "sqlite_master",
                                          "run_id",
                                          "RUN_ID",
                                          "é\n\t",
                                          "a\\b",
                                          "SELECT"};
  Json columns = Json::object();
  for (std::size_t i = 0; i < names.size(); ++i) columns[names[i]] = static_cast<int>(i);
  {
    Store store(path("r.db"));
    for (const std::string& name : names) {
      if (name.empty()) continue;
      Row row = row_of("{}", "{}");
      row.point = row.columns = columns;
      store.add(store.start_run(run_of(name)), row);
    }
    EXPECT_THAT(store.runs(), SizeIs(names.size() - 1));
  }
  const auto views = select(path("r.db"), "SELECT name FROM sqlite_schema WHERE type = 'view'");
  EXPECT_THAT(views, SizeIs(names.size()));  // with the heading
  for (std::size_t v = 1; v < views.size(); ++v) {
    std::string quoted;
    for (const char c : views[v][0]) quoted += c == '"' ? "\"\"" : std::string(1, c);
    const auto rows = select(path("r.db"), "SELECT * FROM \"" + quoted + "\"");
    ASSERT_THAT(rows, SizeIs(2));
    for (std::size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(rows[1].at(1 + i), std::to_string(i)) << names[i];
      EXPECT_EQ(rows[1].at(2 + names.size() + i), std::to_string(i)) << names[i];
    }
  }
}

TEST_F(ResultsFile, ManyColumnsAreStoredAndSomeOfThemShown) {
  Row row = row_of("{}", "{}");
  for (int i = 0; i < 3000; ++i) row.columns["c" + std::to_string(i)] = i;
  {
    Store store(path("r.db"));
    store.add(store.start_run(run_of("wide")), row);
    EXPECT_EQ(all_rows(store, 1)[0].columns, row.columns);
  }
  EXPECT_THAT(select(path("r.db"), "SELECT * FROM \"rows:wide\"").at(0), SizeIs(1000));
}

}  // namespace
}  // namespace tessera::results::file_test
