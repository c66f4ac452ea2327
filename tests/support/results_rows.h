#pragma once

#include <string>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/results/store.h"

/// Runs and rows as short as tests want to write them.
namespace tessera::test {

inline results::RunSpec run_of(const std::string& experiment, const std::string& hash = "h") {
  results::RunSpec spec;
  spec.experiment = experiment;
  spec.origin.script_hash = hash;
  return spec;
}

inline results::Row row_of(const std::string& point, const std::string& columns) {
  results::Row row;
  row.point = Json::parse(point);
  row.columns = Json::parse(columns);
  return row;
}

inline std::vector<results::Row> all_rows(results::Store& store, std::int64_t run) {
  std::vector<results::Row> rows;
  store.each_row(run, [&rows](const results::Row& row) { rows.push_back(row); });
  return rows;
}

}  // namespace tessera::test
