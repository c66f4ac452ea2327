#include <gtest/gtest.h>

#include "folder.h"
#include "tessera/run/worker_records.h"

namespace tessera::run::model_fingerprint_test {
namespace {

class ModelFingerprintTest : public test::FolderTest {
 protected:
  std::string of(const std::string& name, const std::string& weights) {
    std::filesystem::create_directories(path(name));
    file(name + "/config.json", "{}");
    file(name + "/model.safetensors", weights);
    return model_fingerprint(path(name));
  }
};

TEST_F(ModelFingerprintTest, TellsWeightsApartWhereverTheyDiffer) {
  std::string weights(3 << 20, 'w');
  const std::string first = of("a", weights);
  EXPECT_EQ(of("b", weights), first);
  for (const std::size_t at : {std::size_t{0}, weights.size() / 2, weights.size() - 1}) {
    std::string other = weights;
    other[at] = 'x';
    EXPECT_NE(of("c", other), first) << at;
  }
  // Of large ones a piece in every 1/256th: half of a layer is never missed.
  weights.assign(40 << 20, 'w');
  const std::string large = of("d", weights);
  std::fill_n(weights.begin() + (20 << 20), 1 << 20, 'x');
  EXPECT_NE(of("d", weights), large);
}

TEST_F(ModelFingerprintTest, LooksAtNothingElse) {
  const std::string first = of("a", "weights");
  file("a/README.md", "of what it is");
  file("a/journal.jl", "an answer");
  EXPECT_EQ(model_fingerprint(path("a")), first);
  file("a/config.json", "{ }");
  EXPECT_NE(model_fingerprint(path("a")), first);
}

}  // namespace
}  // namespace tessera::run::model_fingerprint_test
