#include "database.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::results {
namespace fs = std::filesystem;
namespace {

constexpr int kBusyTimeout_ms = 20'000;

std::string shown(const std::string& path) { return quote(path, 300); }

[[noreturn]] void fail(ErrorCode code, const std::string& path, const std::string& problem) {
  throw Error(code, fmt::format("results file {}: {}", shown(path), problem), path);
}

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

// SQLite says "unable to open database file" for all of these.
void check_file(const std::string& path, const OpenOptions& options) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is no path of a results file", shown(path)), quote(path));
  }
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) {
    fail(ErrorCode::io, path, "is a folder; give the path of a file, such as results.db in it");
  }
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : ".";
  if (!fs::exists(status)) {
    if (!fs::is_directory(folder, error)) {
      fail(ErrorCode::not_found, path,
           fmt::format("the folder {} does not exist; make it first", shown(folder.string())));
    }
    if (options.read_only || !options.create) {
      fail(ErrorCode::not_found, path,
           "does not exist; `tessera run EXPERIMENT.lua --results FILE` makes one, and --results "
           "FILE names another");
    }
  } else if (!fs::is_regular_file(status)) {
    fail(ErrorCode::io, path, "is no regular file");
  } else if (::access(path.c_str(), R_OK) != 0) {
    fail(ErrorCode::io, path, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  if (options.read_only) return;
  if (fs::exists(status) && ::access(path.c_str(), W_OK) != 0) {
    fail(ErrorCode::io, path, fmt::format("cannot be written: {}", std::strerror(errno)));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    fail(ErrorCode::io, path,
         fmt::format("its folder cannot be written, which SQLite needs for its log: {}; copy the "
                     "file elsewhere or write to another one",
                     std::strerror(errno)));
  }
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
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_.fail(code);
  return false;
}

void Query::check(int code) const {
  if (code != SQLITE_OK) database_.fail(code);
}

std::string Query::text(int column) const {
  const auto* bytes = sqlite3_column_text(statement_, column);
  if (bytes == nullptr) return "";
  return {reinterpret_cast<const char*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
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
  check_file(path_, options_);
  open();
  open_databases().insert(this);
}

Database::~Database() { close(); }

void Database::open() {
  process_ = ::getpid();
  int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const char* parameters = "";
  if (options_.read_only) {
    flags |= SQLITE_OPEN_READONLY;
    // Even to read, SQLite would put a log and its index beside a file in WAL mode, which stay.
    // Where nobody has left a log there is nothing to share with anybody.
    unlocked_ = ::access((path_ + "-wal").c_str(), F_OK) != 0 &&
                ::access((path_ + "-journal").c_str(), F_OK) != 0;
    stamp_ = stamp_of(path_);
    if (unlocked_) parameters = "?immutable=1";
  } else {
    flags |= SQLITE_OPEN_READWRITE | (options_.create ? SQLITE_OPEN_CREATE : 0);
  }
  const int code = sqlite3_open_v2(uri_of(path_, parameters).c_str(), &connection_, flags, nullptr);
  if (code != SQLITE_OK) {
    try {
      fail(code);
    } catch (const Error&) {
      close_quietly();
      throw;
    }
  }
  sqlite3_busy_timeout(connection_, kBusyTimeout_ms);
  // Names in double quotes are names, never text by accident.
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  // What a file from elsewhere may bring along cannot do more than be read.
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
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
  if (stamp_of(path_) == stamp_ && ::access((path_ + "-wal").c_str(), F_OK) != 0) return;
  close_quietly();
  check_file(path_, options_);
  open();
}

int Database::try_script(const std::string& sql) {
  return sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr);
}

void Database::script(const std::string& sql) {
  if (const int code = try_script(sql); code != SQLITE_OK) fail(code);
}

sqlite3_stmt* Database::prepared(const std::string& sql) {
  if (connection_ == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("results file {}: is closed; open it again", shown(path_)), path_);
  }
  if (process_ != ::getpid()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("results file {}: was opened by process {}, this is its copy {}; open "
                            "it again here",
                            shown(path_), process_, ::getpid()),
                path_);
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
  tessera::results::fail(ErrorCode::io, path_, advice(code, detail));
}

}  // namespace tessera::results
