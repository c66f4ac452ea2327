#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/model_shape.h"

// How checkpoints name the matrices of a decoder layer, family by family.
namespace tessera::weights {

/// Where one linear of a layer may be: a pattern of the tensor's name, and what it shares the
/// tensor with. "{}" stands for the layer, "{e}" for the expert.
struct Place {
  enum class Fused {
    no,
    grouped_qkv,       ///< per key-value head: its query heads, its key head, its value head
    qkv,               ///< all of q, all of k, all of v
    gate_up,           ///< all of gate, all of up
    gate_up_by_turns,  ///< a row of gate, a row of up
  };
  std::string pattern;
  Fused fused = Fused::no;
  bool transposed = false;  ///< stored [in_features, out_features]
  bool stacked = false;     ///< one tensor [experts, out_features, in_features]
};

/// The places where a linear of this name may be, in the order in which to look; the first tensor
/// that is there counts.
/// @throws Error{unsupported} for a family whose names are not known
std::vector<Place> places_of(const std::string& family, const std::string& linear, bool gguf);

/// Tensors whose rows, one after the other, are those of a linear that other files keep as one:
/// patterns as in Place; none for most linears.
std::vector<std::string> pieces_of(const std::string& linear, bool gguf);

/// What stands before the names of layers in a file, "" first: "model.", "transformer.", ...
const std::vector<std::string>& name_prefixes();

}  // namespace tessera::weights
