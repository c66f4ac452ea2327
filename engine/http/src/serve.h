#pragma once

#include <string>

#include "tessera/http/module.h"

namespace tessera::http {

/// As Module has them.
void check(const ServerOptions& options, bool has_key);
std::string serve(const ServeRequest& request);

}  // namespace tessera::http
