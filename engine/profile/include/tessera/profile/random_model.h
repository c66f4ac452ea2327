#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/core/model_shape.h"

namespace tessera {
class OutputFolder;
}

namespace tessera::profile {

/// A checkpoint of random weights in BF16 with the first `num_layers` layers of a shape, in a
/// temporary folder that goes with it: what layers take does not depend on the numbers. Gated
/// networks become a Llama of the same sizes, the others an OPT: norms, biases and positions, which
/// differ between families, are a hundredth of a layer.
class RandomModel {
 public:
  /// @throws Error{unsupported} for experts, layers that are not alike, and attention to latents,
  /// saying to name a folder with weights; Error{io}
  RandomModel(const ModelShape& shape, std::int64_t num_layers);
  ~RandomModel();
  RandomModel(const RandomModel&) = delete;
  RandomModel& operator=(const RandomModel&) = delete;

  std::string path() const;

 private:
  std::unique_ptr<OutputFolder> folder_;
};

}  // namespace tessera::profile
