// Request lines and header fields, as any client may send them.
#include "request_head.h"

#include "target.h"

TESSERA_FUZZ_TARGET(request_head) {
  return tessera::fuzz::read(data, size, [](std::string_view text) {
    const tessera::http::RequestHead head = tessera::http::read_head(text);
    using tessera::fuzz::require;
    require(!head.method.empty() && head.path.starts_with('/'), "a head without a path");
    require(!(head.is_chunked && head.content_length), "two lengths were taken");
    for (const auto& [name, value] : head.fields) {
      require(value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos,
              "a field holds a line end");
      if (name == "host") tessera::http::is_own_host(value, "127.0.0.1");
    }
  });
}
