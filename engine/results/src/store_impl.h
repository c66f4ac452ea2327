#pragma once

#include <map>

#include "database.h"
#include "view.h"

namespace tessera::results {

/// What a run says, also as it is stored: rows that say the same leave it out.
struct StoredOrigin {
  std::string experiment;
  Origin origin;
  std::string machine, build;  ///< of `origin`, as JSON text
};

/// What the parts of the store share. Its methods belong inside of a transaction.
struct Store::Impl {
  Impl(const std::string& path, const OpenOptions& options)
      : database(path, options), views(database) {}

  std::int64_t start_run(const RunSpec& spec, double created_at);
  void add(std::int64_t run, const Row& row, bool replace);
  void set_claims(std::int64_t run, const Json& claims);
  const StoredOrigin& origin_of(std::int64_t run);
  /// One transaction; what is remembered of the file stays true where it fails.
  template <class Body>
  void write(Body&& body) {
    try {
      database.transaction(body);
    } catch (const std::exception&) {
      views.forget();
      origins.clear();
      throw;
    }
  }

  Database database;
  Views views;
  std::map<std::int64_t, StoredOrigin> origins;
};

}  // namespace tessera::results
