#pragma once

#include <string_view>

#include "family.h"
#include "tessera/core/arithmetic.h"

// Families that differ from Llama by switches alone. A new one is a row of the table in
// switches.cpp; a layer that no switch describes is a reader of its own.
namespace tessera::hf {

/// Which layers see a window only. `layer_types`, where written, says it layer by layer.
struct Windows {
  const char* key = nullptr;                ///< of the window's tokens; nullptr: no windows
  std::optional<std::int64_t> tokens = {};  ///< where the key is not written
  std::int64_t period = 0;  ///< every so many-th layer sees everything; 0: none does
  const char* period_key = nullptr;
  bool period_begins_full = false;         ///< the first of a period sees everything, else the last
  const char* first = nullptr;             ///< so many layers have periods of their own
  const char* first_period_key = nullptr;  ///< 1 where it is not written: all see everything
};

/// A feed-forward network of experts in all layers but the first few.
struct Experts {
  const char* total = nullptr;  ///< nullptr: no experts
  const char* active = "num_experts_per_tok";
  const char* width = "intermediate_size";
  const char* shared = nullptr;        ///< experts of that width which every token visits
  const char* shared_width = nullptr;  ///< of the network that every token visits
  std::int64_t num_shared = 0;
  const char* first_dense = nullptr;  ///< so many layers are dense
  std::int64_t num_dense = 0;
  const char* dense_width = nullptr;  ///< of these, where it is written
  const char* last = nullptr;         ///< the last layer that may have them; -1: of the model
  const char* step = nullptr;         ///< every so many-th layer has them
  bool step_ends = false;             ///< the last of so many, else the first
  bool router_bias = false;           ///< a number per expert beside the router's matrix
};

struct Switches {
  LlamaDefaults sizes = {};
  bool gated = true;
  std::int64_t norms = 2;   ///< of a layer, over the hidden size
  Switch parallel = {};     ///< attention and feed-forward network share one of them
  Switch outer_norms = {};  ///< two more, of what attention and feed-forward network put out
  bool sinks = false;       ///< a number for each head
  bool norm_weight = true;
  Switch norm_bias = {};
  Switch qkv_bias = {}, output_bias = {}, ffn_bias = {}, head_bias = {};
  Switch learned_positions = {};
  Switch multi_query = {};  ///< one KV head, whatever else is written
  QkNorm qk_norm = QkNorm::none;
  const char* qk_norm_key = nullptr;  ///< where it is false there are none
  bool qk_norm_unless_written = false;
  bool output_gate = false;  ///< a matrix as wide as the queries
  bool inner_norms = false;  ///< before the output of attention and of the feed-forward network
  std::int64_t activation_numbers = 0;  ///< that a network's activation has learned (xIELU)
  Windows windows = {};
  Experts experts = {};
};

/// The switches of a family, or nullptr for one that has a reader of its own.
const Switches* find_switches(std::string_view family);

void read_switches(Config& config, const Switches& switches, ModelShape& model);

}  // namespace tessera::hf
