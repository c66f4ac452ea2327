#pragma once

#include <string>
#include <vector>

namespace tessera::fuzz {

/// An input of a target: the name of its file, and its bytes.
struct Input {
  std::string name, bytes;
};

/// The inputs of several sources, sorted by name. A source is a folder with a file for each, or a
/// pack: a JSON file, {"name": "text", ...}, one input a line, whose characters U+0000 to U+00FF
/// are the bytes.
/// @throws Error for a source that is not there, has no input, or is no pack, and for a name that
/// comes twice.
std::vector<Input> read_corpus(const std::vector<std::string>& sources);

/// A pack of these inputs: the same text for the same inputs, in ASCII.
/// @throws Error for a name that comes twice.
std::string pack_text(std::vector<Input> inputs);

}  // namespace tessera::fuzz
