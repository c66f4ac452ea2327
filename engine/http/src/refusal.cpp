#include "refusal.h"

#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera::http {
namespace {

constexpr std::size_t kMostMessage = 1000;  // bytes

const char* type_of(int status) {
  if (status == 401) return "authentication_error";
  if (status == 404) return "not_found_error";
  if (status == 503) return "service_unavailable_error";
  return status >= 500 ? "internal_error" : "invalid_request_error";
}

}  // namespace

std::string error_body(int status, const std::string& message, const std::string& param,
                       const std::string& code) {
  std::string line = printable(message.substr(0, kMostMessage));
  for (char& c : line) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  }
  const auto or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(printable(text));
  };
  Json error = Json::object();
  error["message"] = line;
  error["type"] = type_of(status);
  error["param"] = or_null(param);
  error["code"] = or_null(code);
  Json body = Json::object();
  body["error"] = std::move(error);
  return shown_json(body);
}

}  // namespace tessera::http
