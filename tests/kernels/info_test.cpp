#include "tessera/kernels/info.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "support.h"

namespace tessera::kernels {
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
  EXPECT_EQ(chosen.size(), 9u);
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
    EXPECT_TRUE(kernel.tested || !kernel.chosen) << kernel.name << " " << kernel.isa;
  }
}

// The list and the sources say the same.
TEST(Info, ListsEveryCudaKernel) {
  std::set<std::string> listed, defined;
  for (const CudaKernelInfo& kernel : cuda_kernels()) {
    EXPECT_TRUE(listed.insert(kernel.name).second) << kernel.name;
    EXPECT_GE(kernel.first_capability, 60) << kernel.name;
    EXPECT_LE(kernel.first_capability, kernel.last_capability) << kernel.name;
  }
  const std::regex name(R"((?:__global__|TESSERA_GLOBAL) void[^;{]*?(\w+)_kernel\()");
  for (const auto& file : std::filesystem::directory_iterator(TESSERA_CUDA_SOURCE)) {
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    const std::string source = text.str();
    for (std::sregex_iterator i(source.begin(), source.end(), name), end; i != end; ++i)
      defined.insert((*i)[1]);
  }
  EXPECT_EQ(listed, defined);
}

}  // namespace
}  // namespace tessera::kernels
