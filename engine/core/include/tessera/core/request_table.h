#pragma once

#include <cstddef>
#include <string>

namespace tessera {

/// The text of a table of requests for a CsvReader, which starts at `first_line`.
struct RequestTable {
  std::string text;
  std::size_t first_line = 1;
};

/// A table as it stands in the file; of objects, one a line or in an array, as Mooncake and
/// Qwen-Bailian write traces, the table that has a column for each key and a row for each object:
/// `hash_ids` become block_ids with the tokens of a block, a `timestamp` timestamp_ms where it
/// counts milliseconds.
/// @throws Error naming the file, and the line of what is no object.
RequestTable read_request_table(const std::string& path);

}  // namespace tessera
