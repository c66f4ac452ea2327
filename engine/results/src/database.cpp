#include "database.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

#include "files.h"
#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::results {
namespace {

constexpr int kBusyTimeout_ms = 20'000;
constexpr int kMaxValue_mib = 256;            // of one text; a sweep's rows hold 16 MiB at most
constexpr int kInstructionsPerLook = 20'000;  // of SQLite's machine: some tenths of a millisecond

// The file as SQLite's URI, where %, ? and # would mean something.
std::string uri_of(const std::string& path, const char* parameters) {
  std::string uri = path.starts_with('/') ? "file://" : "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  return uri + parameters;
}

// Changes whenever the file does, as far as the system can tell.
std::string stamp_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return "";
  return fmt::format("{} {} {}.{}", info.st_ino, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

std::string advice(int code, const std::string& detail) {
  switch (code & 0xFF) {
    case SQLITE_NOTADB:
      return "is no SQLite database; give the file that `tessera run --results FILE` wrote";
    case SQLITE_CORRUPT:
      return fmt::format(
          "is damaged ({}); take a backup, or save what can be read: sqlite3 FILE .recover | "
          "sqlite3 NEW.db",
          detail);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return fmt::format("another process has kept it locked for {} s; wait for it, or end it",
                         kBusyTimeout_ms / 1000);
    case SQLITE_FULL:
      return "the disk is full; make room and start again, what is stored stays";
    case SQLITE_CANTOPEN:
      return "has a log (FILE-wal) that a killed program left, and a folder that cannot be written "
             "to read it; copy both files to a folder that can";
    case SQLITE_READONLY:
      return "cannot be written; check the permissions of the file and of its folder";
    case SQLITE_TOOBIG:
      return fmt::format("a value of more than {} MiB, which no results file holds", kMaxValue_mib);
    case SQLITE_IOERR:
      return fmt::format("reading or writing failed ({}); check the disk and its free space",
                         detail);
    default:
      return detail;
  }
}

// Of this process; exit() closes what nobody destroys. The set itself outlives everything.
std::set<Database*>& open_databases() {
  static auto* const all = [] {
    std::atexit([] {
      while (!open_databases().empty()) (*open_databases().begin())->close();
    });
    return new std::set<Database*>();
  }();
  return *all;
}

}  // namespace

bool Query::next() {
  database_.note_progress();
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_.fail(code);
  return false;
}

void Query::check(int code) const {
  if (code != SQLITE_OK) database_.fail(code);
}

void Query::expect(bool fits, int column, const char* wanted) const {
  if (fits) return;
  static constexpr const char* kFound[] = {"a whole number", "a number", "text", "bytes",
                                           "nothing"};
  const int type = sqlite3_column_type(statement_, column);
  throw Error(ErrorCode::io,
              fmt::format("{}: {} where {} belongs", sqlite3_column_name(statement_, column),
                          kFound[type - SQLITE_INTEGER], wanted));
}

std::int64_t Query::integer(int column) const {
  expect(sqlite3_column_type(statement_, column) == SQLITE_INTEGER, column, "a whole number");
  return sqlite3_column_int64(statement_, column);
}

double Query::number(int column) const {
  const int type = sqlite3_column_type(statement_, column);
  expect(type == SQLITE_FLOAT || type == SQLITE_INTEGER, column, "a number");
  const double value = sqlite3_column_double(statement_, column);
  expect(std::isfinite(value), column, "a finite one");
  return value;
}

std::string Query::text(int column) const {
  expect(sqlite3_column_type(statement_, column) == SQLITE_TEXT, column, "text");
  const auto* bytes = sqlite3_column_text(statement_, column);
  if (bytes == nullptr) database_.fail(SQLITE_NOMEM);
  return {reinterpret_cast<const char*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

std::string Query::utf8(int column) const {
  std::string value = text(column);
  expect(is_utf8(value), column, "UTF-8");
  return value;
}

void Query::bind(int position, std::int64_t value) {
  check(sqlite3_bind_int64(statement_, position, value));
}

void Query::bind(int position, double value) {
  check(sqlite3_bind_double(statement_, position, value));
}

void Query::bind(int position, std::string_view value) {
  check(sqlite3_bind_text64(statement_, position, value.data() == nullptr ? "" : value.data(),
                            value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Query::bind(int position, std::nullopt_t) { check(sqlite3_bind_null(statement_, position)); }

Database::Database(const std::string& path, const OpenOptions& options)
    : path_(path), options_(options) {
  options_.read_only ? check_may_read(path_) : check_may_write(path_);
  file_ = check_file(path_, options_);
  open();
  open_databases().insert(this);
}

Database::~Database() { close(); }

void Database::open() {
  process_ = ::getpid();
  int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW;
  const char* parameters = "";
  if (options_.read_only) {
    flags |= SQLITE_OPEN_READONLY;
    // Even to read, SQLite would put a log and its index beside a file in WAL mode, which stay.
    // Where nobody has left a log there is nothing to share with anybody.
    unlocked_ = ::access((file_ + "-wal").c_str(), F_OK) != 0;
    stamp_ = stamp_of(file_);
    if (unlocked_) parameters = "?immutable=1";
  } else {
    flags |= SQLITE_OPEN_READWRITE | (options_.create ? SQLITE_OPEN_CREATE : 0);
  }
  const int code =
      sqlite3_open_v2(uri_of(file_, parameters).c_str(), &connection_, flags, guarded_files());
  if (code != SQLITE_OK) {
    try {
      fail(code);
    } catch (const Error&) {
      close_quietly();
      throw;
    }
  }
  configure();
}

void Database::configure() {
  sqlite3_busy_timeout(connection_, kBusyTimeout_ms);
  // Names in double quotes are names, never text by accident.
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  // What a file from elsewhere may bring along cannot do more than be read.
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_limit(connection_, SQLITE_LIMIT_LENGTH, kMaxValue_mib << 20);
  sqlite3_limit(connection_, SQLITE_LIMIT_ATTACHED, 0);
  const auto look = [](void* self) { return static_cast<Database*>(self)->must_stop() ? 1 : 0; };
  sqlite3_progress_handler(connection_, kInstructionsPerLook, look, this);
}

// SQLite asks now and then while a statement works.
bool Database::must_stop() {
  if (options_.interrupted && options_.interrupted()) {
    stop_ = Stop::interrupted;
    return true;
  }
  const Clock::time_point now = Clock::now();
  if (!silent_since_) silent_since_ = now;
  if (std::chrono::duration<double>(now - *silent_since_).count() < options_.silence_limit_s) {
    return false;
  }
  stop_ = Stop::silent;
  return true;
}

void Database::close_quietly() noexcept {
  if (process_ != ::getpid()) {
    // The other process goes on with its log and locks; closing here would take them away.
    statements_.clear();
    connection_ = nullptr;
    return;
  }
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  statements_.clear();
  sqlite3_close_v2(std::exchange(connection_, nullptr));
}

void Database::close() {
  close_quietly();
  open_databases().erase(this);
}

void Database::refresh() {
  if (!unlocked_ || connection_ == nullptr) return;
  if (stamp_of(file_) == stamp_ && ::access((file_ + "-wal").c_str(), F_OK) != 0) return;
  close_quietly();
  file_ = check_file(path_, options_);
  open();
}

int Database::try_script(const std::string& sql) {
  note_progress();
  return sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr);
}

void Database::script(const std::string& sql) {
  if (const int code = try_script(sql); code != SQLITE_OK) fail(code);
}

sqlite3_stmt* Database::prepared(const std::string& sql) {
  if (connection_ == nullptr) {
    refuse_file(ErrorCode::invalid_argument, path_, "is closed; open it again");
  }
  if (process_ != ::getpid()) {
    refuse_file(ErrorCode::invalid_argument, path_,
                fmt::format("was opened by process {}, this is its copy {}; open it again here",
                            process_, ::getpid()));
  }
  sqlite3_stmt*& statement = statements_[sql];
  if (statement == nullptr) {
    const int code = sqlite3_prepare_v3(connection_, sql.c_str(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK) fail(code);
  }
  if (sqlite3_stmt_busy(statement) != 0) {
    throw Error(ErrorCode::internal, "a statement is executed inside of itself: " + sql, path_);
  }
  return statement;
}

void Database::fail(int code) const {
  const char* detail = connection_ != nullptr ? sqlite3_errmsg(connection_) : sqlite3_errstr(code);
  if ((code & 0xFF) == SQLITE_INTERRUPT && stop_ == Stop::interrupted) {
    throw Error(ErrorCode::interrupted, "interrupted by Ctrl-C", path_);
  }
  if ((code & 0xFF) == SQLITE_INTERRUPT) {
    refuse_file(
        ErrorCode::io, path_,
        fmt::format("SQLite worked for {} s on it and gave nothing, so it was stopped; the file is "
                    "damaged or made to keep programs busy",
                    options_.silence_limit_s));
  }
  if ((code & 0xFF) == SQLITE_CANTOPEN) {
    if (const auto problem = problem_beside(file_)) {
      refuse_file(ErrorCode::io, path_, *problem);
    }
    if (::access(file_.c_str(), F_OK) != 0) {
      const int reason = connection_ != nullptr ? sqlite3_system_errno(connection_) : 0;
      refuse_file(ErrorCode::io, path_,
                  fmt::format("cannot be made{}{}; its folder takes no files of yours, so name "
                              "another with --results FILE",
                              reason != 0 ? ": " : "", reason != 0 ? std::strerror(reason) : ""));
    }
  }
  refuse_file(ErrorCode::io, path_, advice(code, detail));
}

void Database::damaged(const std::string& place, const std::string& problem) const {
  refuse_file(ErrorCode::io, path_,
              fmt::format("{}: {}; the file is damaged, or another program's: take a "
                          "backup, or run the experiment again",
                          place, problem));
}

}  // namespace tessera::results
