#include "tessera/core/error.h"

#include "tessera/core/provenance.h"

namespace tessera {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::out_of_range:
      return "out_of_range";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::io:
      return "io";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::solver:
      return "solver";
    case ErrorCode::script:
      return "script";
    case ErrorCode::interrupted:
      return "interrupted";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

void refuse(std::string_view path, std::string_view what) {
  refuse(ErrorCode::invalid_argument, path, what);
}

void refuse(ErrorCode code, std::string_view path, std::string_view what) {
  throw Error(code, fmt::format("{}: {}", path, what), std::string(path));
}

std::string_view to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::measured:
      return "measured";
    case Provenance::fitted:
      return "fitted";
    case Provenance::published:
      return "published";
    case Provenance::modelled:
      return "modelled";
  }
  return "modelled";
}

std::optional<Provenance> provenance_from_string(std::string_view name) {
  for (Provenance p :
       {Provenance::measured, Provenance::fitted, Provenance::published, Provenance::modelled}) {
    if (to_string(p) == name) return p;
  }
  return std::nullopt;
}

}  // namespace tessera
