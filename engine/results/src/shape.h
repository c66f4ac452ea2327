#pragma once

#include "tessera/results/store.h"

/// What belongs where in the JSON of a run or a row: what every reader of a results file counts on.
/// Checked when something is stored, and again when it is read, since files come from elsewhere
/// too. All throw Error{invalid_argument}: "declaration: keys[2]: a number where text belongs".
namespace tessera::results {

/// Optional fields of an object: name, doc, paper_source (text); keys, columns, notes (lists of
/// text); points, time_limit_s (numbers); plots (list of objects); paper (a list of published rows,
/// or an object with such `rows`). Others may hold anything.
void check_declaration(const Json& declaration);

/// An object with the optional fields text, not_reproduced, here, note (text), numbers (text or a
/// number), lines (list of text), checked, skipped (numbers), passed (boolean), and status: "pass",
/// "fail", "skipped", "differs", which `not_reproduced` explains, or "note", which `note` does.
void check_claim(const Json& claim);

/// Of an experiment: 1 to 1000 bytes of UTF-8 without NUL.
void check_name(const std::string& experiment);

/// Machine, build: objects.
void check_facts(const Json& facts, const std::string& name);

/// Point and columns, objects, the latter without the names of the row's own fields; inputs, a list
/// of objects; a status; times.
void check_row(const Row& row);

inline constexpr double kMaxTime_s = 1e12;  ///< the year 33658; dates go no further

/// Seconds since 1970.
void check_time(double time_s, const char* name);

}  // namespace tessera::results
