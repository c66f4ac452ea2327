// Bodies of completions and chats.
#include "api_request.h"

#include "target.h"
#include "tessera/chat/chat_template.h"

namespace {

using namespace tessera;
using namespace tessera::http;

void read_all_of(std::string_view body, Endpoint endpoint) {
  const ApiRequest request = read_api_request(body, endpoint);
  fuzz::require(request.temperature >= 0 && request.temperature <= 2, "a temperature outside");
  fuzz::require(request.n >= 1 && request.n <= 128, "a number of answers outside");
  stops_of(request);
  includes_usage(request);
  bias_of(request);
  num_top_of(request, endpoint);
  if (endpoint == Endpoint::completions) {
    fuzz::require(!prompts_of(request).empty(), "no prompt");
  } else {
    fuzz::require(!chat::checked_messages(request.messages).empty(), "no message");
  }
}

}  // namespace

TESSERA_FUZZ_TARGET(api_request) {
  fuzz::read(data, size, [](std::string_view body) { read_all_of(body, Endpoint::chat); });
  return fuzz::read(data, size,
                    [](std::string_view body) { read_all_of(body, Endpoint::completions); });
}
