#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tessera/lm/language_model.h"
#include "tessera/lm/text_input.h"

namespace tessera::lm {

/// Which text, and what of the inputs is kept.
struct CalibrationRequest {
  TextInput input;
  std::int64_t num_samples = 32;  ///< consecutive pieces from the text's start
  /// In [1, max_context_tokens]; nothing: 512, or the model's context where that is less.
  std::optional<std::int64_t> sample_tokens;
  bool with_hessian = false;  ///< X^T X / num_tokens of every input: GPTQ
  /// The text is run again for each so many layers, whose sums alone are in memory; 0: once for
  /// all. Of SmolLM2-135M all Hessians are 400 MB.
  std::int64_t layers_at_once = 0;
  std::string out;                                                           ///< the file
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  ///< samples run
  const std::atomic<bool>* stop = nullptr;                                   ///< set by Ctrl-C
};

/// What was written.
struct Calibration {
  std::int64_t num_inputs = 0;  ///< of matrices; those that share one count once
  std::int64_t num_tokens = 0;
  double seconds = 0;
};

/// Runs the text and writes what the matrices multiply: the file of statistics that
/// quant::Statistics reads (`tessera man statistics`), which appears whole or not at all.
/// @throws Error{invalid_argument, out_of_range} naming the field, and a matrix that no token
/// reached (an expert, of a short text); Error{interrupted}; Error{not_found, io} of the file
Calibration calibrate(const LanguageModel& model, const CalibrationRequest& request);

}  // namespace tessera::lm
