#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tessera {

/// Keeps the order in which keys were written, so that files we write read as we meant them.
using Json = nlohmann::ordered_json;

}  // namespace tessera
