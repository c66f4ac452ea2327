#pragma once

#include <cstddef>
#include <string>

namespace tessera::http {

/// As Module::get.
std::string get(const std::string& url, const std::string& path, double time_limit_s,
                std::size_t max_bytes);

}  // namespace tessera::http
