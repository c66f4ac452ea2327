#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/record.h"
#include "tessera/lm/language_model.h"
#include "tessera/profile/cores.h"
#include "tessera/profile/timing.h"

namespace tessera::profile {

/// What of a model is timed.
enum class Piece {
  layer,      ///< one decoder layer
  embedding,  ///< tokens to hidden states
  head,       ///< final norm and LM head
  sampling,   ///< the most likely token of each row of logits
};

/// A pass of a batch through a piece: so many new tokens of each sequence behind what its cache
/// has. Head and sampling see a row for each sequence.
struct Pass {
  Piece piece = Piece::layer;
  std::int64_t batch_size = 1;
  std::int64_t tokens = 1;
  std::int64_t context_tokens = 0;

  std::int64_t rows() const { return batch_size * tokens; }
};

struct TimedPass {
  Pass pass;
  Timing timing;  ///< of one layer, of all rows
};

struct PassesRequest {
  std::vector<Pass> passes;
  TimingOptions timing;
  Cpu cpu;
  std::int64_t cores = 0;   ///< that the passes run on; 0: no thread is bound to a core
  std::int64_t others = 0;  ///< cores behind these which run the same pass meanwhile
  Clock clock = steady_s;
  std::function<bool()> interrupted = {};
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

/// Times passes through layers [first_layer, last_layer) of a loaded part, a layer the mean of
/// those that a run takes: one after the other, as a stage reads them, so that their weights come
/// from memory and not from a cache which one layer would fit into. Passes of many rows take fewer
/// layers a run.
/// @param other what the other cores run; a model of its own, so that no cache line is shared
/// @throws Error{out_of_range} for a pass beyond the model's context, Error{interrupted}
std::vector<TimedPass> time_passes(const lm::LanguageModel& model, const lm::LanguageModel* other,
                                   const PassesRequest& request);

}  // namespace tessera::profile

namespace tessera {

template <>
inline constexpr auto kEnumNames<profile::Piece> =
    enum_names<profile::Piece>({{profile::Piece::layer, "layer"},
                                {profile::Piece::embedding, "embedding"},
                                {profile::Piece::head, "head"},
                                {profile::Piece::sampling, "sampling"}});

template <>
struct Fields<profile::Pass> {
  using P = profile::Pass;
  static constexpr auto list = std::tuple{
      field<&P::piece>({.name = "piece", .doc = "What is timed"}),
      field<&P::batch_size>({.name = "batch_size", .doc = "Sequences", .min = 1, .max = 1e6}),
      field<&P::tokens>(
          {.name = "tokens", .doc = "New ones of each sequence", .min = 1, .max = 1e6}),
      field<&P::context_tokens>(
          {.name = "context_tokens", .doc = "Of each in its cache before", .min = 0, .max = 1e6})};
};

}  // namespace tessera
