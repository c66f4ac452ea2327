#pragma once

#include <set>
#include <string>
#include <vector>

#include "database.h"

namespace tessera::results {

/// The point keys and columns of each experiment, and the view "rows:EXPERIMENT" that shows them as
/// columns of SQL to people with the tool `sqlite3`.
class Views {
 public:
  explicit Views(Database& database) : database_(database) {}

  /// Adds the names that are new to an experiment, within the transaction of the row that brought
  /// them, and writes its view again if there are any.
  void note(const std::string& experiment, const std::vector<std::string>& point_keys,
            const std::vector<std::string>& columns);
  /// To call when that transaction did not come to be.
  void forget() { known_.clear(); }

 private:
  bool note_name(const std::string& experiment, const char* kind, const std::string& name);
  std::string suffix(const std::string& experiment);
  void write(const std::string& experiment);

  Database& database_;
  std::set<std::string> known_;
};

}  // namespace tessera::results
