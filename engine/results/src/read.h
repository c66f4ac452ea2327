#pragma once

#include <string>

#include "database.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"

/// Reading what is stored, none of which is trusted: every value is checked where it is read.
namespace tessera::results {

/// What `body` reads of the file; what it finds wrong, with the place in the file in front.
/// @throws Error{io}: "results file 'r.db': run 3: seed: text where a whole number belongs; ..."
template <class Place, class Body>
auto read_at(const Database& database, const Place& place, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    database.damaged(place(), error.what());
  }
}

/// The JSON in a column.
Json json_at(const Query& query, int column, const char* name);

}  // namespace tessera::results
