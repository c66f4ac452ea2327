#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/weights/weights.h"

namespace tessera::quant {

/// What calibration saw at the input of one linear; k = in_features.
struct LinearStatistics {
  std::int64_t num_tokens = 0;
  Eigen::VectorXf mean;          ///< [k], over tokens
  Eigen::VectorXf variance;      ///< [k], population, over tokens
  Eigen::VectorXf abs_mean;      ///< [k]
  Eigen::VectorXf abs_max;       ///< [k]
  double token_variance = 0;     ///< mean over tokens of the variance over the k features
  double token_mean_square = 0;  ///< mean over tokens of the mean square over the k features
  std::optional<Eigen::MatrixXf> hessian;  ///< [k, k] = X^T X / num_tokens

  std::int64_t in_features() const { return mean.size(); }
  /// Diagonal of the Hessian, with or without one: variance + mean^2.
  Eigen::VectorXf mean_square() const;
};

/// Statistics of inputs that come a batch at a time: however many tokens there are, memory stays at
/// one batch and the Hessian.
class InputSums {
 public:
  InputSums(std::int64_t in_features, bool with_hessian);
  /// `inputs` is [num_tokens, in_features], row-major.
  /// @throws Error{invalid_argument} for a value that is not finite
  void add(const float* inputs, std::int64_t num_tokens);
  /// @throws Error{invalid_argument} where there was no token
  LinearStatistics statistics() &&;

 private:
  std::int64_t num_tokens_ = 0;
  Eigen::ArrayXd mean_, abs_sum_, squares_;  ///< [k]; squares of the deviations from the mean
  Eigen::VectorXf abs_max_;
  double token_variance_ = 0, token_mean_square_ = 0;  ///< sums over the tokens
  std::optional<Eigen::MatrixXf> products_;            ///< X^T X, one half
};

/// From all inputs at once: `inputs` is [num_tokens, in_features], row-major.
/// @throws Error{invalid_argument} for no tokens or a value that is not finite
LinearStatistics statistics_of(const float* inputs, std::int64_t num_tokens,
                               std::int64_t in_features, bool with_hessian);

/// A calibration file, `tessera man statistics`: a safetensors file with the metadata
/// `format = tessera.activation_statistics/1`. Tensors are read when asked for.
class Statistics {
 public:
  /// @throws Error{not_found, io, invalid_argument, unsupported} naming file and tensor
  static Statistics open(const std::string& path);

  /// Of a linear as LinearShape names it; empty where the file has none. Linears that share an
  /// input may be stored once.
  /// @throws Error{invalid_argument} for values that cannot be statistics: not finite, a negative
  /// variance, a Hessian that is not symmetric
  std::optional<LinearStatistics> find(std::int64_t layer_index, std::string_view linear,
                                       bool with_hessian = true) const;

  const std::string& path() const { return path_; }
  const std::string& model() const { return model_; }    ///< as the producer names it
  const std::string& source() const { return source_; }  ///< the text that calibrated
  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t num_samples() const { return num_samples_; }
  std::int64_t num_layers() const { return num_layers_; }  ///< one more than the last layer named

 private:
  Statistics() = default;

  std::string path_, model_, source_;
  std::int64_t num_tokens_ = 0, num_samples_ = 0, num_layers_ = 0;
  std::shared_ptr<const weights::Weights> file_;
  std::map<std::string, std::string, std::less<>> stored_as_;  ///< "layers.0.k_proj" to its prefix
};

}  // namespace tessera::quant
