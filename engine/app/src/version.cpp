#include "version.h"

#include <fmt/format.h>

#include <lua.hpp>

#include "build_info.h"
#include "tessera/core/layout.h"
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
  if (kernel.chosen) return "chosen";
  return kernel.runs_here ? "runs here" : "not on this CPU";
}

std::string cuda_text() {
  const std::string compiled = kernels::cuda_architectures();
  std::string text = compiled.empty()
                         ? "\nCUDA kernels, not compiled: no working CUDA toolkit was found\n"
                         : fmt::format("\nCUDA kernels, compiled for {}\n", compiled);
  constexpr std::size_t kWhat = 51;
  const auto row = [](std::string_view kernel, std::string_view runs_on, std::string_view state,
                      std::string_view what) {
    return paragraph(what, kWhat, kHelpColumns)
        .replace(0, kWhat, fmt::format("{:<20}{:<14}{:<17}", kernel, runs_on, state));
  };
  text += row("kernel", "runs on", "state", "what");
  for (const kernels::CudaKernelInfo& kernel : kernels::cuda_kernels()) {
    const std::string runs_on =
        kernel.last_capability < kernels::kNewestCapability
            ? fmt::format("sm_{} to {}", kernel.first_capability, kernel.last_capability)
            : fmt::format("sm_{}+", kernel.first_capability);
    text += row(kernel.name, runs_on, kernel.tested ? "tested on a GPU" : "never run", kernel.does);
  }
  return text;
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
         "\nCalls use the fastest version that this CPU runs; TESSERA_KERNELS_ISA=NAME uses\n"
         "those up to that one.\n" +
         cuda_text();
}

Json kernels_json() {
  Json list = Json::array();
  for (const kernels::KernelInfo& kernel : kernels::cpu_kernels()) {
    list.push_back({{"name", kernel.name},
                    {"isa", kernel.isa},
                    {"runs_here", kernel.runs_here},
                    {"chosen", kernel.chosen}});
  }
  Json cuda = Json::array();
  for (const kernels::CudaKernelInfo& kernel : kernels::cuda_kernels()) {
    cuda.push_back({{"name", kernel.name},
                    {"first_capability", kernel.first_capability},
                    {"last_capability", kernel.last_capability < kernels::kNewestCapability
                                            ? Json(kernel.last_capability)
                                            : Json(nullptr)},
                    {"tested", kernel.tested},
                    {"does", kernel.does}});
  }
  return {{"kernels", list},
          {"cuda_kernels", cuda},
          {"cuda_architectures", kernels::cuda_architectures()}};
}

}  // namespace tessera::app
