// Headers of others that most files read, compiled once: half of the build's time. Nothing of ours
// is among them, so what a module may include stays what its own directory list says.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

// nlohmann::json's literals are ordinary functions that call the parser, so every file that reads
// the precompiled header would instantiate a parser (0.7 s each, a sixth of the whole build)
// although nobody uses them. The body becomes that of a template which is never instantiated, and
// the literal is deleted.
#define _json(text, size)     \
  _json(text, size) = delete; \
  template <class Never>      \
  nlohmann::json parse_never(const Never* s, std::size_t n)
#include <nlohmann/json.hpp>
#undef _json
