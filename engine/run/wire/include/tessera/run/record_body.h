#pragma once

#include <string>
#include <vector>

#include "tessera/core/record_json.h"
#include "tessera/run/handshake.h"

/// Records as the bodies of messages.
namespace tessera::run {

template <Record T>
std::vector<std::byte> record_body(const T& record) {
  return body_of(json_text(json_of(record)));
}

/// @throws as from_json, naming the message's kind
template <Record T>
T record_of(const Message& message) {
  const std::string name(name_of(message.header.kind));
  return from_json<T>(parse_json(text_of(message), name), name);
}

}  // namespace tessera::run
