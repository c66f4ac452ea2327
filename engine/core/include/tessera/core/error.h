#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/core/enum_names.h"

namespace tessera {

/// What kind of thing went wrong; scripts see the name (`name_of`) as `err.code`.
enum class ErrorCode {
  invalid_argument,  ///< wrong type, unknown option, malformed value
  out_of_range,      ///< a number outside its documented range
  not_found,         ///< unknown model, device, cluster, file
  io,                ///< unreadable or unwritable file
  unsupported,       ///< understood, and refused by name (an architecture, a format version)
  solver,            ///< the optimisation library failed
  script,            ///< an error raised by Lua code that C++ called
  interrupted,       ///< Ctrl-C
  internal,          ///< a defect of ours
};

template <>
inline constexpr auto kEnumNames<ErrorCode> =
    enum_names<ErrorCode>({{ErrorCode::invalid_argument, "invalid_argument"},
                           {ErrorCode::out_of_range, "out_of_range"},
                           {ErrorCode::not_found, "not_found"},
                           {ErrorCode::io, "io"},
                           {ErrorCode::unsupported, "unsupported"},
                           {ErrorCode::solver, "solver"},
                           {ErrorCode::script, "script"},
                           {ErrorCode::interrupted, "interrupted"},
                           {ErrorCode::internal, "internal"}});

/// The one exception of the engine. Thrown only for what ends the job; expected outcomes are
/// values.
///
/// `what()` states what is wrong, where, the numbers with units, and what to do about it.
/// `where()` is the path of the option or file concerned ("problem.workload.batch_size"), or empty.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::string where = {})
      : std::runtime_error(message), code_(code), message_(message), where_(std::move(where)) {}

  ErrorCode code() const noexcept { return code_; }
  /// `what()` and, where a script put a NUL byte into it, what follows.
  const std::string& message() const noexcept { return message_; }
  const std::string& where() const noexcept { return where_; }

 private:
  ErrorCode code_;
  std::string message_, where_;
};

/// Throws Error{invalid_argument}, or of another code, with the message "path: what". The path is
/// what `where()` gives: an option, a field, a file.
[[noreturn]] void refuse(std::string_view path, std::string_view what);
[[noreturn]] void refuse(ErrorCode code, std::string_view path, std::string_view what);

/// refuse(path, "{} is outside [{}, {}]", value, low, high)
template <class First, class... Rest>
[[noreturn]] void refuse(std::string_view path, fmt::format_string<First, Rest...> what,
                         First&& first, Rest&&... rest) {
  refuse(path, fmt::format(what, std::forward<First>(first), std::forward<Rest>(rest)...));
}
template <class First, class... Rest>
[[noreturn]] void refuse(ErrorCode code, std::string_view path,
                         fmt::format_string<First, Rest...> what, First&& first, Rest&&... rest) {
  refuse(code, path, fmt::format(what, std::forward<First>(first), std::forward<Rest>(rest)...));
}

}  // namespace tessera
