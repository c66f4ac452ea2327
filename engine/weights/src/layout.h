#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/weights/weights.h"

// What the readers of both formats check alike.
namespace tessera::weights {

/// "PATH: byte 123: problem"
[[noreturn]] void fail_at(const std::string& path, std::uint64_t byte, const std::string& problem,
                          ErrorCode code = ErrorCode::invalid_argument);

/// A name that can be shown, searched and written as JSON: UTF-8 without control characters, of 1
/// to 1024 bytes. "" where it is one, else what is wrong with it.
std::string problem_of_name(const std::string& name);

/// @throws Error at the byte of the file where a name has a problem
void check_name(const std::string& name, const std::string& path, std::uint64_t byte);

enum class Gaps { refused, allowed };

/// Sorts the tensors by offset. Their bytes lie in [begin, end) of the file and share none; where
/// gaps are refused they fill it.
/// @throws Error naming the tensors and the byte
void check_layout(std::vector<TensorInfo>& tensors, std::uint64_t begin, std::uint64_t end,
                  Gaps gaps, const std::string& path);

}  // namespace tessera::weights
