#pragma once

#include <string_view>
#include <vector>

#include "decoder.h"

namespace tessera::lm {

inline Rows2d rows_of(const Memory& memory, std::int64_t rows, std::int64_t columns) {
  return {static_cast<float*>(memory.get()), rows, columns, columns};
}

struct Decoder::Pass {
  Pass(const Step& batch, const DecoderCache& kv, const Backend& device, const ModelShape& shape,
       Rows2d states)
      : step(batch), cache(kv), backend(device), hidden(states) {
    normed = buffer(shape.hidden_size);
    out = buffer(shape.hidden_size);
  }
  /// Kept until the pass ends.
  Rows2d buffer(std::int64_t columns, std::int64_t rows = 0) {
    if (rows == 0) rows = hidden.rows;
    memory.push_back(backend.allocate(rows * columns * 4));
    return rows_of(memory.back(), rows, columns);
  }
  void see(std::int64_t layer_index, std::string_view linear, Rows2d inputs) const {
    if (observer == nullptr) return;
    std::vector<float> dense(static_cast<std::size_t>(inputs.rows * inputs.columns));
    for (std::int64_t row = 0; row < inputs.rows; ++row) {
      backend.download(inputs.data + row * inputs.stride, inputs.columns * 4,
                       dense.data() + row * inputs.columns);
    }
    (*observer)(layer_index, linear, dense.data(), inputs.rows);
  }

  const Step& step;
  const DecoderCache& cache;
  const Backend& backend;
  Rows2d hidden, normed, out;
  Rows2d qkv, attention, inner, second, query, gate;  ///< made when a layer needs them
  const Observer* observer = nullptr;
  std::vector<Memory> memory;
};

}  // namespace tessera::lm
