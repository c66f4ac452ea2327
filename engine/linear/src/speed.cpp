#include "speed.h"

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/kernels/info.h"

namespace tessera::linear {

float number(std::uint64_t i) {
  auto bits = static_cast<std::uint32_t>(i ^ i >> 32);
  bits = (bits ^ bits >> 15) * 2246822519u;
  bits = (bits ^ bits >> 13) * 3266489917u;
  return static_cast<float>(static_cast<std::int32_t>(bits ^ bits >> 16)) * 0x1p-31f;
}

std::vector<float> numbers(std::int64_t count, std::uint64_t from) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = number(from + i);
  return values;
}

WithIsa::WithIsa(const std::string& isa) : is_set_(!isa.empty()) {
  if (!is_set_ || kernels::use_isa(isa.c_str())) return;
  std::string known;
  for (const kernels::KernelInfo& kernel : kernels::cpu_kernels()) {
    const std::string name = kernel.isa;
    if (kernel.runs_here && known.find(name + ",") == std::string::npos) known += name + ", ";
  }
  refuse("isa", "{} does not run here; these do: {}", quote(isa),
         known.substr(0, known.size() - 2));
}

WithIsa::~WithIsa() {
  if (is_set_) kernels::use_isa(nullptr);
}

std::string chosen_isa(std::string_view kernel) {
  for (const kernels::KernelInfo& version : kernels::cpu_kernels()) {
    if (version.chosen && kernel == version.name) return version.isa;
  }
  return "";
}

}  // namespace tessera::linear
