#include "tessera/lm/zero_shot.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "means.h"
#include "scores.h"
#include "sequences.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"

namespace tessera::lm {
namespace {

using Tokens32 = std::vector<std::int32_t>;

/// A continuation behind its context, as tokens.
struct Continuation {
  Tokens32 inputs;   ///< all but the last token
  Tokens32 targets;  ///< the continuation's own: what the last rows of logits are scored on
};

struct EncodedItem {
  std::vector<Continuation> continuations;
  std::int64_t shared_tokens = 0;  ///< whole blocks that all inputs begin with

  std::int64_t own_tokens(const Continuation& one) const {
    return static_cast<std::int64_t>(one.inputs.size()) - shared_tokens;
  }
  std::int64_t run_tokens() const {
    std::int64_t sum = shared_tokens;
    for (const Continuation& one : continuations) sum += own_tokens(one);
    return sum;
  }
  std::int64_t num_blocks() const {
    std::int64_t sum = shared_tokens / kBlockTokens;
    for (const Continuation& one : continuations) sum += ceil_div(own_tokens(one), kBlockTokens);
    return sum;
  }
};

/// Of Python's str.rstrip, in ASCII.
std::size_t length_without_blanks(const std::string& text) {
  const std::size_t last = text.find_last_not_of(" \t\n\v\f\r\x1c\x1d\x1e\x1f");
  return last == std::string::npos ? 0 : last + 1;
}

std::int64_t num_characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

class Encoder {
 public:
  Encoder(const LanguageModel& model, bool special)
      : tokens_(model.tokens()), shape_(model.shape()), special_(special) {}

  EncodedItem encode(const ZeroShotItem& item) const {
    EncodedItem encoded;
    for (const std::string& continuation : item.continuations)
      encoded.continuations.push_back(pair_of(item.context, continuation, item.where));
    if (encoded.continuations.size() > 1) encoded.shared_tokens = shared_by(encoded.continuations);
    return encoded;
  }

 private:
  Continuation pair_of(std::string context, std::string continuation,
                       const std::string& where) const {
    Tokens32 first, second;
    if (context.empty()) {
      first = {first_token(where)};
      second = tokens_.encode(continuation, false);
    } else {
      const std::size_t length = length_without_blanks(context);
      continuation.insert(0, context, length, std::string::npos);
      context.resize(length);
      first = tokens_.encode(context, special_);
      second = tokens_.encode(context + continuation, special_);
      second.erase(second.begin(), second.begin() + static_cast<std::ptrdiff_t>(
                                                        std::min(first.size(), second.size())));
    }
    check(first, second, where);
    Continuation result{first, second};
    result.inputs.insert(result.inputs.end(), second.begin(), second.end() - 1);
    const auto most = static_cast<std::size_t>(shape_.max_context_tokens);
    if (result.inputs.size() > most) {
      const auto excess = static_cast<std::ptrdiff_t>(result.inputs.size() - most);
      result.inputs.erase(result.inputs.begin(), result.inputs.begin() + excess);
    }
    return result;
  }

  void check(const Tokens32& context, const Tokens32& continuation,
             const std::string& where) const {
    if (context.empty() || continuation.empty()) {
      refuse(where, "the {} has no token of its own in this model's tokenizer",
             context.empty() ? "context" : "continuation");
    }
    if (static_cast<std::int64_t>(continuation.size()) > shape_.max_context_tokens) {
      refuse(where, "a continuation of {} tokens; {} sees {} at most", continuation.size(),
             shape_.name, shape_.max_context_tokens);
    }
    for (const Tokens32* tokens : {&context, &continuation}) {
      for (const std::int32_t token : *tokens) {
        if (token >= 0 && token < shape_.vocab_size) continue;
        refuse(ErrorCode::out_of_range, where, "token {} is outside of the vocabulary of {}", token,
               shape_.vocab_size);
      }
    }
  }

  std::int32_t first_token(const std::string& where) const {
    if (const auto bos = tokens_.bos_token_id()) return *bos;
    const Tokens32 stops = tokens_.stop_token_ids();
    if (stops.empty()) refuse(where, "no context, and the tokenizer has no token to begin with");
    return stops.front();
  }

  static std::int64_t shared_by(const std::vector<Continuation>& all) {
    const Tokens32& one = all.front().inputs;
    std::size_t same = one.size();
    for (const Continuation& other : all) {
      const auto end = std::mismatch(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(same),
                                     other.inputs.begin(), other.inputs.end());
      same = static_cast<std::size_t>(end.first - one.begin());
      // Every row that is scored is run with its own continuation.
      same = std::min(same, other.inputs.size() - other.targets.size());
    }
    return static_cast<std::int64_t>(same) / kBlockTokens * kBlockTokens;
  }

  const Tokens& tokens_;
  const ModelShape& shape_;
  bool special_;
};

struct Scored {
  double log_likelihood = 0;
  bool is_greedy = true;
};

/// Runs items together: first what the continuations of each share, then the rest of each.
class ItemRunner {
 public:
  ItemRunner(const LanguageModel& model, std::int64_t num_blocks)
      : model_(model), cache_(model.make_cache(num_blocks)) {}

  /// By item and continuation.
  std::vector<std::vector<Scored>> run(std::span<const EncodedItem> items) {
    next_block_ = 0;
    tables_.clear();
    std::vector<SequenceStep> shared, own;
    for (const EncodedItem& item : items) {
      if (item.shared_tokens == 0) continue;
      const Tokens32& table = new_table({}, item.shared_tokens);
      shared.push_back({std::span(item.continuations.front().inputs)
                            .first(static_cast<std::size_t>(item.shared_tokens)),
                        0, table, 1});
    }
    auto prefix = shared.begin();
    for (const EncodedItem& item : items) {
      const std::span<const std::int32_t> blocks =
          item.shared_tokens == 0 ? std::span<const std::int32_t>() : (prefix++)->block_table;
      for (const Continuation& one : item.continuations) {
        const Tokens32& table = new_table(blocks, item.own_tokens(one));
        own.push_back({std::span(one.inputs).subspan(static_cast<std::size_t>(item.shared_tokens)),
                       item.shared_tokens, table, static_cast<std::int64_t>(one.targets.size())});
      }
    }
    if (!shared.empty()) step(shared);
    step(own);
    return scores_of(items);
  }

 private:
  /// Blocks of a prefix, then new ones for so many tokens. Its address stays.
  const Tokens32& new_table(std::span<const std::int32_t> prefix, std::int64_t num_tokens) {
    auto& table = *tables_.emplace_back(std::make_unique<Tokens32>(prefix.begin(), prefix.end()));
    for (std::int64_t i = 0; i < ceil_div(num_tokens, kBlockTokens); ++i)
      table.push_back(next_block_++);
    return table;
  }

  void step(std::span<const SequenceStep> batch) {
    std::int64_t rows = 0;
    for (const SequenceStep& sequence : batch) rows += sequence.num_logits;
    logits_.resize(static_cast<std::size_t>(rows * model_.shape().vocab_size));
    model_.step(batch, *cache_, logits_);
  }

  std::vector<std::vector<Scored>> scores_of(std::span<const EncodedItem> items) {
    Tokens32 targets;
    for (const EncodedItem& item : items) {
      for (const Continuation& one : item.continuations)
        targets.insert(targets.end(), one.targets.begin(), one.targets.end());
    }
    std::vector<double> losses(targets.size());
    quality::score_rows(logits_, targets, model_.num_threads(), losses);
    const auto vocab_size = static_cast<std::size_t>(model_.shape().vocab_size);
    std::vector<std::vector<Scored>> result;
    std::size_t row = 0;
    for (const EncodedItem& item : items) {
      std::vector<Scored>& scores = result.emplace_back();
      for (const Continuation& one : item.continuations) {
        Scored& score = scores.emplace_back();
        for (const std::int32_t target : one.targets) {
          const auto logits = std::span(logits_).subspan(row * vocab_size, vocab_size);
          score.is_greedy = score.is_greedy && quality::is_greedy(logits, target);
          score.log_likelihood -= losses[row++];
        }
      }
    }
    return result;
  }

  const LanguageModel& model_;
  std::unique_ptr<KvCache> cache_;
  std::int32_t next_block_ = 0;
  std::vector<std::unique_ptr<Tokens32>> tables_;
  std::vector<float> logits_;
};

/// Of equals the first, as NumPy's argmax.
std::size_t largest(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

ZeroShotAnswer answer_of(const ZeroShotItem& item, const std::vector<Scored>& scores) {
  ZeroShotAnswer answer;
  for (const Scored& score : scores) answer.log_likelihoods.push_back(score.log_likelihood);
  if (scores.size() == 1) {
    answer.is_right = scores.front().is_greedy;
    return answer;
  }
  std::vector<double> per_character = answer.log_likelihoods;
  for (std::size_t i = 0; i < scores.size(); ++i)
    per_character[i] /= static_cast<double>(num_characters(item.continuations[i]) - 1);
  answer.is_right = largest(answer.log_likelihoods) == item.answer;
  answer.is_right_norm = largest(per_character) == item.answer;
  return answer;
}

void check(const ZeroShotRequest& request) {
  if (request.items.empty()) refuse("items", "there are none");
  if (request.batch_tokens < 1)
    refuse(ErrorCode::out_of_range, "batch_tokens", "{} is less than 1", request.batch_tokens);
  const bool has_choices = request.task != ZeroShotTask::lambada;
  for (const ZeroShotItem& item : request.items) {
    const std::size_t count = item.continuations.size();
    if (has_choices ? count < 2 : count != 1) {
      refuse(item.where, "{} continuations; {} takes {}", count, name_of(request.task),
             has_choices ? "at least 2" : "1");
    }
    if (item.answer >= count)
      refuse(ErrorCode::out_of_range, item.where, "answer {} of {}", item.answer, count);
    for (const std::string& continuation : item.continuations) {
      if (continuation.size() < 2 || continuation.front() != ' ')
        refuse(item.where, "a continuation is a blank and a text, not '{}'", continuation);
    }
  }
}

void summarise(const ZeroShotRequest& request, ZeroShotResult& result) {
  std::vector<double> right, right_norm, losses;
  for (const ZeroShotAnswer& answer : result.answers) {
    right.push_back(answer.is_right ? 1 : 0);
    right_norm.push_back(answer.is_right_norm ? 1 : 0);
    losses.push_back(-answer.log_likelihoods.front());
  }
  result.num_items = static_cast<std::int64_t>(right.size());
  const auto accuracy = quality::mean_of(right);
  result.accuracy = accuracy.mean;
  result.standard_error = accuracy.standard_error;
  if (request.task != ZeroShotTask::lambada) {
    const auto norm = quality::mean_of(right_norm);
    result.accuracy_norm = norm.mean;
    result.accuracy_norm_standard_error = norm.standard_error;
    return;
  }
  const auto loss = quality::mean_of(losses);
  result.perplexity = std::exp(loss.mean);
  if (loss.standard_error)
    result.perplexity_standard_error = *result.perplexity * *loss.standard_error;
}

}  // namespace

ZeroShotResult measure_zero_shot(const LanguageModel& model, const ZeroShotRequest& request) {
  check(request);
  const quality::Stopwatch watch;
  const Encoder encoder(model, request.special);
  std::vector<EncodedItem> items;
  for (const ZeroShotItem& item : request.items) items.push_back(encoder.encode(item));

  std::vector<std::size_t> ends;  // of batches
  std::int64_t most_blocks = 0;
  for (std::size_t first = 0; first < items.size(); first = ends.back()) {
    std::int64_t tokens = items[first].run_tokens(), blocks = items[first].num_blocks();
    std::size_t end = first + 1;
    while (end < items.size() && tokens + items[end].run_tokens() <= request.batch_tokens) {
      tokens += items[end].run_tokens();
      blocks += items[end++].num_blocks();
    }
    ends.push_back(end);
    most_blocks = std::max(most_blocks, blocks);
  }

  ItemRunner runner(model, most_blocks);
  ZeroShotResult result;
  for (const std::size_t end : ends) {
    result.partial = quality::is_set(request.stop);
    if (result.partial) break;
    const std::size_t first = result.answers.size();
    const auto scores = runner.run(std::span(items).subspan(first, end - first));
    for (std::size_t i = first; i < end; ++i)
      result.answers.push_back(answer_of(request.items[i], scores[i - first]));
    if (request.progress) {
      request.progress(static_cast<std::int64_t>(end), static_cast<std::int64_t>(items.size()));
    }
  }
  if (result.answers.empty())
    throw Error(ErrorCode::interrupted, "stopped before the first item was answered");
  summarise(request, result);
  result.seconds = watch.seconds();
  return result;
}

}  // namespace tessera::lm
