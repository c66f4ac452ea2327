#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/lm/language_model.h"

/// Zero-shot accuracy as EleutherAI's lm-evaluation-harness defines it (read in its code, 0.4:
/// tasks/{arc,piqa,lambada}, ConfigurableTask.process_results, TemplateLM._encode_pair and
/// HFLM._loglikelihood_tokens).
///
///   arc_easy, arc_challenge, piqa   "Question: {question}\nAnswer:" goes before " {choice}"; the
///       answer is the choice with the largest log-likelihood (`accuracy`, its `acc`), or with the
///       largest log-likelihood per character of the choice without its blank (`accuracy_norm`, its
///       `acc_norm`: Python's len(), so characters of Unicode and not bytes, which only its newer
///       `acc_bytes` counts; in ASCII both are the same). Of equals the first is taken.
///   lambada   the openai form: what is before the last blank, then " {last word}"; right where
///       every token of the word is the likeliest, of equals the first. `perplexity` is exp of the
///       mean negative log-likelihood of a word.
///
/// Context and continuation are encoded together and split at the number of tokens of the context
/// alone, blanks at its end being moved to the continuation. As of its change 3347 ("Delegate BOS
/// to the tokenizer") special tokens are those that the tokenizer adds; before, none were. A
/// context too long for the model loses its beginning.
namespace tessera::lm {

enum class ZeroShotTask { lambada, arc_easy, arc_challenge, piqa };

/// One question, as read.
struct ZeroShotItem {
  std::string context;
  std::vector<std::string> continuations;  ///< " {choice}"; of lambada one
  std::size_t answer = 0;                  ///< which is right
  std::string where;                       ///< "file:line"
};

/// Reads a file of JSON lines as it was published, or as Hugging Face gives it:
///
///   arc      {"question": {"stem", "choices": [{"text", "label"}]}, "answerKey"}, or
///            {"question", "choices": {"text": [], "label": []}, "answerKey"}
///   piqa     {"goal", "sol1", "sol2"} and "label": 0 or 1, or NAME-labels.lst or NAME.lst beside
///            NAME.jsonl with a label per line
///   lambada  {"text"}
///
/// Other keys may be there. `limit`: no more than so many items from the start; 0: all.
/// @throws Error{not_found, io, invalid_argument} naming file and line
std::vector<ZeroShotItem> read_zero_shot(ZeroShotTask task, const std::string& path,
                                         std::int64_t limit = 0);

struct ZeroShotRequest {
  ZeroShotTask task = ZeroShotTask::lambada;
  std::vector<ZeroShotItem> items;  ///< not empty
  bool special = true;              ///< contexts with the tokenizer's first token
  /// Run at once, where a single item is not longer. The result does not depend on it.
  std::int64_t batch_tokens = 512;
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  ///< items
  const std::atomic<bool>* stop = nullptr;                                   ///< set by Ctrl-C
};

/// How one item was answered; for comparisons of models item by item.
struct ZeroShotAnswer {
  std::vector<double> log_likelihoods;  ///< of the continuations, nats
  bool is_right = false, is_right_norm = false;
};

/// Standard errors are the sample's deviation over the square root of its size, as in the harness
/// (but for perplexity, for which it resamples: here the error of the mean, times perplexity).
/// Absent for a single item.
struct ZeroShotResult {
  double accuracy = 0;
  std::optional<double> standard_error;
  std::optional<double> accuracy_norm;  ///< of tasks with choices
  std::optional<double> accuracy_norm_standard_error;
  std::optional<double> perplexity;  ///< of lambada, per word
  std::optional<double> perplexity_standard_error;
  std::int64_t num_items = 0;
  double seconds = 0;
  bool partial = false;                 ///< stopped: of the items until then
  std::vector<ZeroShotAnswer> answers;  ///< [num_items]
};

/// Items share steps, and the choices of an item the cache of its context; neither changes a
/// result, where the model's steps do not depend on their batch.
/// @throws Error{invalid_argument, out_of_range} naming the item; Error{interrupted} where it was
/// stopped before the first
ZeroShotResult measure_zero_shot(const LanguageModel& model, const ZeroShotRequest& request);

}  // namespace tessera::lm

template <>
inline constexpr auto tessera::kEnumNames<tessera::lm::ZeroShotTask> =
    tessera::enum_names<tessera::lm::ZeroShotTask>(
        {{tessera::lm::ZeroShotTask::lambada, "lambada"},
         {tessera::lm::ZeroShotTask::arc_easy, "arc_easy"},
         {tessera::lm::ZeroShotTask::arc_challenge, "arc_challenge"},
         {tessera::lm::ZeroShotTask::piqa, "piqa"}});
