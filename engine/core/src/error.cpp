#include "tessera/core/error.h"

namespace tessera {

void refuse(std::string_view path, std::string_view what) {
  refuse(ErrorCode::invalid_argument, path, what);
}

void refuse(ErrorCode code, std::string_view path, std::string_view what) {
  throw Error(code, fmt::format("{}: {}", path, what), std::string(path));
}

}  // namespace tessera
