#pragma once

#include <string>
#include <utility>

#include "tessera/core/error.h"

namespace tessera::http {

/// Why a request is not answered, as its client is told: where() is the field.
class Refusal : public Error {
 public:
  /// @param code OpenAI's, or "": none
  Refusal(int status, const std::string& message, std::string param = {}, std::string code = {})
      : Error(ErrorCode::invalid_argument, message, std::move(param)),
        status_(status),
        error_code_(std::move(code)) {}

  int status() const { return status_; }
  const std::string& error_code() const { return error_code_; }

 private:
  int status_;
  std::string error_code_;
};

/// { "error": { message, type, param, code } }; the message in one line.
std::string error_body(int status, const std::string& message, const std::string& param = {},
                       const std::string& code = {});

}  // namespace tessera::http
