#include "latent_attention.h"

#include <algorithm>
#include <utility>

#include "tessera/kernels/parallel.h"

namespace tessera::lm {

std::optional<LatentWidths> latent_widths(const LayerShape& layer) {
  if (!layer.latent_width) return std::nullopt;
  LatentWidths widths{.rank = *layer.latent_width,
                      .plain = layer.head_dim - layer.rope_width.value_or(0),
                      .rope = layer.rope_width.value_or(0)};
  for (const LinearShape& linear : layer.linears)
    if (linear.name == "o_proj") widths.value = linear.in_features / layer.num_heads;
  return widths;
}

LatentHeads::LatentHeads(const LatentWidths& widths, std::int64_t num_heads,
                         std::vector<float> matrix)
    : widths_(widths), num_heads_(num_heads), matrix_(std::move(matrix)) {}

void LatentHeads::absorb(Rows2d queries, Rows2d out, int num_threads) const {
  const std::int64_t rank = widths_.rank;
  kernels::for_slices(num_threads, num_heads_, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t head = first; head < last; ++head) {
      for (std::int64_t row = 0; row < queries.rows; ++row) {
        const float* query = queries.data + row * queries.stride + head * widths_.query();
        float* to = out.data + row * out.stride + head * widths_.kept();
        std::fill_n(to, rank, 0.0f);
        const float* keys = of_head(head);
        for (std::int64_t p = 0; p < widths_.plain; ++p) {
          for (std::int64_t r = 0; r < rank; ++r) to[r] += query[p] * keys[p * rank + r];
        }
        std::copy_n(query + widths_.plain, widths_.rope, to + rank);
      }
    }
  });
}

void LatentHeads::expand(Rows2d read, Rows2d out, int num_threads) const {
  const std::int64_t rank = widths_.rank;
  kernels::for_slices(num_threads, num_heads_, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t head = first; head < last; ++head) {
      const float* values = of_head(head) + widths_.plain * rank;
      for (std::int64_t row = 0; row < read.rows; ++row) {
        const float* latent = read.data + row * read.stride + head * widths_.kept();
        float* to = out.data + row * out.stride + head * widths_.value;
        for (std::int64_t v = 0; v < widths_.value; ++v) {
          float sum = 0;
          for (std::int64_t r = 0; r < rank; ++r) sum += values[v * rank + r] * latent[r];
          to[v] = sum;
        }
      }
    }
  });
}

}  // namespace tessera::lm
