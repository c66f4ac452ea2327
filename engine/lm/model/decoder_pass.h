#pragma once

#include <string_view>
#include <vector>

#include "decoder.h"

namespace tessera::lm {

inline Rows2d rows_of(const Memory& memory, std::int64_t rows, std::int64_t columns) {
  return {static_cast<float*>(memory.get()), rows, columns, columns};
}

struct Decoder::Pass {
  struct Room {
    Memory memory;
    std::int64_t columns = 0;
  };
  Pass(const Step& batch, const DecoderCache& kv, const Backend& device, const ModelShape& shape,
       Rows2d states)
      : step(batch), cache(kv), backend(device), hidden(states) {
    normed = buffer(shape.hidden_size);
    out = buffer(shape.hidden_size);
  }
  /// Kept until the pass ends.
  Rows2d buffer(std::int64_t columns) {
    memory.push_back(backend.allocate(hidden.rows * columns * 4));
    return rows_of(memory.back(), hidden.rows, columns);
  }
  /// A row for each token in a room that layers use one after the other: what was in it goes.
  Rows2d in(Room& room, std::int64_t columns) const {
    if (room.columns < columns) room = {backend.allocate(hidden.rows * columns * 4), columns};
    return rows_of(room.memory, hidden.rows, columns);
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
  Room qkv, attention, inner, second, query, gate, absorbed, read, values;  ///< made when needed
  Rows2d layer_inputs;  ///< [rows][layers x width] of what layers get by token; or none
  std::vector<Rows2d> streams, predicted;  ///< the hidden states of a token; or none
  const Observer* observer = nullptr;
  std::vector<Memory> memory;
};

}  // namespace tessera::lm
