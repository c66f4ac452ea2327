#include "tessera/kernels/info.h"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "support.h"

namespace tessera::kernels::info_test {
namespace {

const KernelInfo* find(const std::string& name, const std::string& isa) {
  for (const KernelInfo& kernel : cpu_kernels()) {
    if (kernel.name == name && kernel.isa == isa) return &kernel;
  }
  return nullptr;
}

TEST(Info, ChoosesOneVersionOfEveryKernel) {
  std::map<std::string, int> chosen;
  for (const KernelInfo& kernel : cpu_kernels()) {
    chosen[kernel.name] += kernel.chosen;
    EXPECT_TRUE(kernel.runs_here || !kernel.chosen) << kernel.name << " " << kernel.isa;
  }
  EXPECT_EQ(chosen.size(), 17u);
  for (const auto& [name, count] : chosen) EXPECT_EQ(count, 1) << name;
}

TEST(Info, UsesTheVersionsThatAreAskedFor) {
  ASSERT_TRUE(use_isa("scalar"));
  for (const KernelInfo& kernel : cpu_kernels()) {
    EXPECT_EQ(kernel.chosen, std::string(kernel.isa) == "scalar");
  }
  ASSERT_TRUE(use_isa("baseline"));  // has only the products; the rest falls back
  EXPECT_TRUE(find("dequant_gemm", "baseline")->chosen);
  EXPECT_TRUE(find("moments", "scalar")->chosen);
  EXPECT_FALSE(use_isa("mmx"));
  EXPECT_TRUE(find("dequant_gemm", "baseline")->chosen);  // as it was
  ASSERT_TRUE(use_isa(nullptr));
}

// What no test has run is not what users get, unless they ask for it.
TEST(Info, DoesNotChooseWhatWasNeverRun) {
  if (std::getenv("TESSERA_KERNELS_ISA") != nullptr) GTEST_SKIP() << "TESSERA_KERNELS_ISA is set";
  ASSERT_TRUE(use_isa(nullptr));
  for (const KernelInfo& kernel : cpu_kernels()) {
    EXPECT_TRUE(kernel.runs_here || !kernel.chosen) << kernel.name << " " << kernel.isa;
  }
}

/// NAME of every "__global__ void NAME_kernel(", whatever attributes stand between.
std::set<std::string> kernels_defined_in(const std::string& source) {
  std::set<std::string> names;
  for (std::size_t at = 0; (at = source.find("_kernel(", at)) != std::string::npos; ++at) {
    std::size_t first = at;
    while (first > 0 && (std::isalnum(source[first - 1]) != 0 || source[first - 1] == '_')) --first;
    const std::size_t before = source.find_last_of(";{}", first) + 1;  // 0 where there is none
    const std::string head = source.substr(before, first - before);
    if (head.find("__global__ void") != std::string::npos ||
        head.find("TESSERA_GLOBAL void") != std::string::npos) {
      names.insert(source.substr(first, at - first));
    }
  }
  return names;
}

// The list and the sources say the same.
TEST(Info, ListsEveryCudaKernel) {
  std::set<std::string> listed, defined;
  for (const CudaKernelInfo& kernel : cuda_kernels()) {
    EXPECT_TRUE(listed.insert(kernel.name).second) << kernel.name;
    EXPECT_GE(kernel.first_capability, 60) << kernel.name;
    EXPECT_LE(kernel.first_capability, kernel.last_capability) << kernel.name;
  }
  for (const auto& file : std::filesystem::directory_iterator(TESSERA_CUDA_SOURCE)) {
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    defined.merge(kernels_defined_in(text.str()));
  }
  EXPECT_EQ(listed, defined);
}

}  // namespace
}  // namespace tessera::kernels::info_test
