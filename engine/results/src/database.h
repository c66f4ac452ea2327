#pragma once

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tessera/results/store.h"

namespace tessera::results {

class Database;

/// One execution of a prepared statement: bind, step through the rows, read columns from 0.
class Query {
 public:
  Query(Database& database, sqlite3_stmt* statement) : database_(database), statement_(statement) {}
  ~Query() {
    if (statement_ != nullptr) sqlite3_reset(statement_);
  }
  Query(Query&& other) noexcept
      : database_(other.database_), statement_(std::exchange(other.statement_, nullptr)) {}

  bool next();  ///< steps; whether there is a row

  // Values of the row, each of the type that belongs there: @throws Error that names the column.
  std::int64_t integer(int column) const;
  double number(int column) const;  ///< finite
  std::string text(int column) const;
  std::string utf8(int column) const;  ///< `text` that no reader of JSON will look at
  bool is_text(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_TEXT; }
  bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  template <class Value>
  auto unless_null(Value (Query::*read)(int) const, int column) const {
    return is_null(column) ? std::nullopt : std::optional<Value>((this->*read)(column));
  }

  void bind(int position, std::int64_t value);
  void bind(int position, double value);
  void bind(int position, std::string_view value);
  void bind(int position, std::nullopt_t);
  void bind(int position, bool value) { bind(position, std::int64_t{value}); }
  void bind(int position, const std::string& value) { bind(position, std::string_view(value)); }
  void bind(int position, const char* value) { bind(position, std::string_view(value)); }
  template <class T>
  void bind(int position, const std::optional<T>& value) {
    value ? bind(position, *value) : bind(position, std::nullopt);
  }

 private:
  void check(int code) const;
  void expect(bool fits, int column, const char* wanted) const;

  Database& database_;
  sqlite3_stmt* statement_;
};

/// The connection to one file. Statements are prepared once and reused. What is still open when the
/// process calls exit() is closed then, so that no log stays beside the file.
class Database {
 public:
  Database(const std::string& path, const OpenOptions& options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }
  bool is_open() const { return connection_ != nullptr; }
  bool read_only() const { return options_.read_only; }
  bool durable() const { return options_.durable; }
  void close();
  /// To call before a read: a file that nobody was writing when it was opened read-only is read
  /// without locks, which ends as soon as somebody does.
  void refresh();

  /// @throws Error{invalid_argument} when the store is closed.
  template <class... Values>
  Query query(const std::string& sql, const Values&... values) {
    Query query(*this, prepared(sql));
    int position = 0;
    (query.bind(++position, values), ...);
    return query;
  }
  /// Executes a statement that gives no rows.
  template <class... Values>
  void run(const std::string& sql, const Values&... values) {
    Query made = query(sql, values...);
    while (made.next()) {
    }
  }
  /// Executes several statements once, without keeping them.
  void script(const std::string& sql);
  /// The same, giving SQLite's code instead of an exception.
  int try_script(const std::string& sql);
  int num_changed() const { return sqlite3_changes(connection_); }
  std::int64_t last_id() const { return sqlite3_last_insert_rowid(connection_); }

  /// Runs `body` as one transaction that has the right to write from its start.
  template <class Body>
  void transaction(Body&& body) {
    run("BEGIN IMMEDIATE");
    try {
      body();
      run("COMMIT");
    } catch (...) {  // nothing of Lua runs in here
      sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
      throw;
    }
  }

  [[noreturn]] void fail(int code) const;
  /// For what is stored and cannot be: names the file, the place in it and what to do.
  [[noreturn]] void damaged(const std::string& place, const std::string& problem) const;

  /// A statement has begun, or has given a row.
  void note_progress() { silent_since_.reset(); }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stop { none, interrupted, silent };

  void open();
  void configure();
  bool must_stop();
  void close_quietly() noexcept;
  sqlite3_stmt* prepared(const std::string& sql);

  std::string path_;  ///< as given
  std::string file_;  ///< what it means, see check_file
  OpenOptions options_;
  bool unlocked_ = false;  ///< opened as a file that nobody changes
  std::string stamp_;      ///< of such a file: size and time of its last change
  int process_ = 0;        ///< that opened it; a copy of it made by fork() must not touch the file
  std::optional<Clock::time_point> silent_since_;
  Stop stop_ = Stop::none;  ///< why the last statement was ended
  sqlite3* connection_ = nullptr;
  std::unordered_map<std::string, sqlite3_stmt*> statements_;
};

}  // namespace tessera::results
