#pragma once

#include <cstddef>
#include <string>

namespace tessera::app {

/// The body that `http://HOST[:PORT][/PATH]` answers a GET with. No redirection is followed.
/// @param path asked for where the URL has none
/// @param time_limit_s of all of it: the name, the connection and the answer
/// @throws Error{invalid_argument} for another URL; Error{unsupported} for https; Error{io} naming
/// the host where nothing answers in time, with another status than 200, or with more than
/// `max_bytes`.
std::string http_get(const std::string& url, const std::string& path, double time_limit_s,
                     std::size_t max_bytes);

}  // namespace tessera::app
