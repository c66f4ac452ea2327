#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "request_head.h"

namespace tessera::http {

struct HttpRequest {
  RequestHead head;
  std::string body;
};

using HeaderFields = std::vector<std::pair<std::string_view, std::string>>;

/// One request's answer, whole or as a stream of events. On the I/O thread alone.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void respond(int status, std::string body, std::string_view type = "application/json",
                       const HeaderFields& fields = {}) = 0;
  /// The head of a stream of server-sent events; then any number of pieces, then its end.
  virtual void begin_events() = 0;
  virtual void send(std::string_view piece) = 0;
  virtual void finish() = 0;

  /// Called once where the client leaves, or reads too slowly, before the answer has ended.
  std::function<void()> on_left = {};
};

/// What a server does with requests. On the I/O thread alone.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void handle(HttpRequest request, std::shared_ptr<Exchange> exchange) = 0;
  /// A stream was cut off, as its client read too slowly.
  virtual void too_slow() = 0;
};

}  // namespace tessera::http
