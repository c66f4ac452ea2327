#include "version.h"

#include <fmt/format.h>

#include <lua.hpp>

#include "build_info.h"
#include "tessera/kernels/info.h"

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

namespace {

const char* state_of(const kernels::KernelInfo& kernel) {
  if (kernel.chosen) return kernel.tested ? "chosen, tested" : "chosen, never tested";
  if (!kernel.tested) {
    return kernel.runs_here ? "runs here, never tested" : "compiled, never run";
  }
  return kernel.runs_here ? "runs here, tested" : "not on this CPU";
}

}  // namespace

std::string kernels_text() {
  std::string text = fmt::format("{:<16}{:<14}{}\n", "kernel", "isa", "state");
  const char* before = "";
  for (const kernels::KernelInfo& kernel : kernels::cpu_kernels()) {
    const bool again = std::string_view(before) == kernel.name;
    text += fmt::format("{:<16}{:<14}{}\n", again ? "" : kernel.name, kernel.isa, state_of(kernel));
    before = kernel.name;
  }
  return text +
         "\nCalls use the fastest tested version that this CPU runs; TESSERA_KERNELS_ISA=NAME "
         "uses\n"
         "the versions up to that one, also where no test has ever run them.\n";
}

Json kernels_json() {
  Json list = Json::array();
  for (const kernels::KernelInfo& kernel : kernels::cpu_kernels()) {
    list.push_back({{"name", kernel.name},
                    {"isa", kernel.isa},
                    {"runs_here", kernel.runs_here},
                    {"tested", kernel.tested},
                    {"chosen", kernel.chosen}});
  }
  return {{"kernels", list}};
}

}  // namespace tessera::app
