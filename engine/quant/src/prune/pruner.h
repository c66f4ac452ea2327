#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/core/model_shape.h"
#include "tessera/quant/prune.h"
#include "tessera/quant/statistics.h"
#include "tessera/weights/linears.h"

namespace tessera::quant {

/// What is pruned, open.
struct PruneInput {
  std::shared_ptr<const weights::Weights> model;
  ModelShape shape;
  std::vector<weights::LinearWeight> linears;
  Statistics statistics;

  /// Mean square of every input of a matrix.
  /// @throws Error{not_found, invalid_argument} where the statistics are of another model
  Eigen::VectorXf mean_square(std::int64_t layer_index, const std::string& linear,
                              std::int64_t in_features) const;
};

/// A way to prune: which shapes and bytes tensors have afterwards.
class Pruner {
 public:
  virtual ~Pruner() = default;
  virtual std::vector<std::int64_t> shape_of(const weights::TensorInfo& tensor) const = 0;
  virtual std::vector<std::byte> bytes_of(const weights::TensorInfo& tensor) const = 0;
  virtual void change(Json& config) const = 0;
  virtual double ratio() const = 0;  ///< of the layers' matrices that goes
};

/// Keeps `kept` of every `group` weights of a row.
std::unique_ptr<Pruner> make_wanda(const PruneInput& input, std::int64_t kept, std::int64_t group);
/// @throws Error{unsupported, out_of_range} for families and ratios that cannot be
std::unique_ptr<Pruner> make_structured(const PruneInput& input, double ratio);

}  // namespace tessera::quant
