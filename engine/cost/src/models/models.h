#pragma once

#include <vector>

#include "tessera/cost/op.h"

/// The models of single operations; each file of this folder is one of them.
namespace tessera::cost::models {

const FitMethod& all_reduce();          ///< the faster of one-shot and two-shot
const FitMethod& attention_operator();  ///< both phases, from grouped and per-head kernels
const FitMethod& bandwidth();           ///< seconds = latency + bytes / rate
const FitMethod& experts();             ///< a grouped kernel: tiles over the SMs, or weights read
const FitMethod& gemm_operator();       ///< tiles over the SMs, and a smooth correction
const FitMethod& layer_operator();      ///< shares of the data sheet, of one decoder layer
const FitMethod& layer_regression();    ///< LLM-PQ's regression, made physical
const FitMethod& nccl();                ///< the faster of two protocols, over a link
const FitMethod& table();               ///< interpolation between the points

// By op, the preferred one first.
std::vector<const FitMethod*> gemm_methods();
std::vector<const FitMethod*> attention_methods();
std::vector<const FitMethod*> expert_methods();
std::vector<const FitMethod*> layer_methods();
std::vector<const FitMethod*> byte_methods();
std::vector<const FitMethod*> all_reduce_methods();
std::vector<const FitMethod*> transfer_methods();  ///< other collectives, and pairs

}  // namespace tessera::cost::models
