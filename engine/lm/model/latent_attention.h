#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/core/model_shape.h"
#include "tessera/lm/backend.h"

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1), in memory of the
// program.
namespace tessera::lm {

/// A head's query and key are `plain` numbers and `rope` that turn; keys but for these, and values,
/// are made of a latent of `rank` numbers that the heads share.
struct LatentWidths {
  std::int64_t rank = 0, plain = 0, rope = 0, value = 0;

  std::int64_t query() const { return plain + rope; }
  std::int64_t kept() const { return rank + rope; }  ///< of a token, for all heads
};
/// Of a layer that has it.
std::optional<LatentWidths> latent_widths(const LayerShape& layer);

/// What makes keys and values of the latent, on the other side of the scores (appendix C): queries
/// are brought to the latents, and so is what was read of these to the values, so that a cache
/// keeps what a token has for all heads, and nothing is made of it again at each step.
class LatentHeads {
 public:
  /// `matrix` [heads][plain + value][rank]: kv_b_proj.
  LatentHeads(const LatentWidths& widths, std::int64_t num_heads, std::vector<float> matrix);

  /// queries [rows][heads * query()]: out [rows][heads * kept()]. Does not depend on num_threads.
  void absorb(Rows2d queries, Rows2d out, int num_threads) const;
  /// read [rows][heads * kept()]: out [rows][heads * value].
  void expand(Rows2d read, Rows2d out, int num_threads) const;

  std::int64_t bytes() const { return static_cast<std::int64_t>(matrix_.size()) * 4; }

 private:
  const float* of_head(std::int64_t head) const {
    return matrix_.data() + head * (widths_.plain + widths_.value) * widths_.rank;
  }

  LatentWidths widths_;
  std::int64_t num_heads_;
  std::vector<float> matrix_;
};

}  // namespace tessera::lm
