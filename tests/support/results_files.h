#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>

#include "folder.h"
#include "results_rows.h"

namespace tessera::test {

/// Changes a database as another program would.
inline void run_sql(const std::string& path, const std::string& statements) {
  sqlite3* connection = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(connection, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(connection) << " in " << statements;
  sqlite3_close(connection);
}

/// A test with a folder for results files.
class ResultsFilesTest : public FolderTest {
 protected:
  /// A file with one run of some rows; its path.
  std::string filled(const std::string& name = "r.db", int num_rows = 3) const {
    results::Store store(path(name));
    const std::int64_t run = store.start_run(run_of("e"));
    for (int i = 0; i < num_rows; ++i) {
      store.add(run, row_of(Json{{"i", i}}.dump(), R"({"v": 1.5, "text": "some text"})"));
    }
    return path(name);
  }
};

}  // namespace tessera::test
