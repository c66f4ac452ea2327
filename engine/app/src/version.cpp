#include "version.h"

#include <fmt/format.h>

#include <lua.hpp>

#include "build_info.h"

namespace tessera::app {
namespace {

std::string or_none(const char* text) { return *text == '\0' ? "none" : text; }

}  // namespace

std::vector<std::pair<std::string, std::string>> version_fields() {
  return {{"version", build_info::kVersion},        {"commit", build_info::kCommit},
          {"compiler", build_info::kCompiler},      {"build_type", or_none(build_info::kBuildType)},
          {"flags", or_none(build_info::kFlags)},   {"luajit", LUAJIT_VERSION},
          {"cbc", or_none(build_info::kCbc)},       {"cuda", or_none(build_info::kCuda)},
          {"libtorch", or_none(build_info::kTorch)}};
}

std::string version_text() {
  std::string text;
  for (const auto& [name, value] : version_fields()) {
    text += fmt::format("{:<11}{}\n", name == "version" ? "tessera" : name, value);
  }
  return text;
}

}  // namespace tessera::app
