#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/core/units.h"

namespace tessera::lm {

/// How the next token is chosen from logits. Applied in the order of Hugging Face's generate(), and
/// with its meanings: repetition penalty, temperature, top_k, top_p.
struct SamplingOptions {
  double temperature = 1;         ///< 0: the most likely token, without a draw
  std::int64_t top_k = 0;         ///< 0: all tokens
  double top_p = 1;               ///< 1: all tokens
  double repetition_penalty = 1;  ///< > 1: against tokens of the text so far (Keskar et al., 2019)
  std::uint64_t seed = 0;
};

}  // namespace tessera::lm

namespace tessera {

template <>
struct Fields<lm::SamplingOptions> {
  using Options = lm::SamplingOptions;
  static constexpr auto list = std::tuple{
      field<&Options::temperature>(
          {.name = "temperature",
           .doc = "Logits are divided by it; 0: always the most likely token",
           .min = 0,
           .max = 1e6,
           .as_option = AsOption::defaulted}),
      field<&Options::top_k>({.name = "top_k",
                              .doc = "Only so many of the most likely tokens, and those as likely "
                                     "as the last of them; 0: all",
                              .min = 0,
                              .max = 1e9,
                              .as_option = AsOption::defaulted}),
      field<&Options::top_p>({.name = "top_p",
                              .doc = "Only the most likely tokens that have this probability "
                                     "together; at least one",
                              .min = 0,
                              .max = 1,
                              .as_option = AsOption::defaulted}),
      field<&Options::repetition_penalty>(
          {.name = "repetition_penalty",
           .doc = "Logits of tokens that are in the text are divided by it, negative ones "
                  "multiplied; 1: none",
           .min = 0.01,
           .max = 100,
           .as_option = AsOption::defaulted}),
      field<&Options::seed>({.name = "seed",
                             .doc = "Of the draws; the same seed gives the same text, on any "
                                    "number of threads",
                             .min = 0,
                             .max = kMaxExactInteger,
                             .as_option = AsOption::defaulted})};
};

}  // namespace tessera

namespace tessera::lm {

/// What a server's clients ask for beside the options, done to logits before these, in vLLM's
/// order: bias, stop tokens, repetition penalty, and what counts generated tokens alone.
struct Adjustments {
  std::vector<std::pair<std::int32_t, float>> bias = {};  ///< token, what is added to its logit
  std::int64_t min_tokens = 0;                 ///< no stop token is one of so many first ones
  std::vector<std::int32_t> stop_tokens = {};  ///< that min_tokens forbids
  double frequency_penalty = 0;                ///< subtracted for each time a token was generated
  double presence_penalty = 0;                 ///< subtracted once from each that was
};

/// Chooses tokens. The draw of a step depends on seed and step alone, not on what was drawn before.
class Sampler {
 public:
  /// @throws Error{out_of_range} for a token of the adjustments that is not in the vocabulary,
  /// Error{invalid_argument} for a number that is not finite
  Sampler(const SamplingOptions& options, std::int64_t vocab_size, Adjustments adjustments = {});

  /// A token that is in the text, of the prompt: the repetition penalty counts it.
  void see(std::int32_t token);
  /// A token that was generated: seen, and counted by the other penalties.
  void add(std::int32_t token);

  /// The token after `logits` [vocab_size], as the `step`-th of a text. Among equally likely tokens
  /// the first is the most likely, for temperature 0 and for what top_p keeps. Sums over the
  /// vocabulary are within 1e-6 (kernels::log_sum_exp).
  /// @throws Error{invalid_argument} where a logit is NaN or +infinity, or all are -infinity
  std::int32_t choose(std::span<const float> logits, std::int64_t step);

  /// Probabilities [vocab_size] that `choose` draws by, 0 for what it leaves out. @throws as choose
  std::vector<double> probabilities(std::span<const float> logits, std::int64_t step = 0);

 private:
  struct Candidate {
    std::int32_t id = 0;
    double weight = 0;  ///< its probability over the most likely token's
  };

  void read(std::span<const float> logits, std::int64_t step);
  bool adjusts(std::int64_t step) const;
  void adjust(std::int64_t step);
  void check_adjustments() const;
  std::int32_t most_likely() const;
  double weight_of(float score) const;
  template <class F>
  void each_from(float least, const F& f) const;
  void gather(float least);
  double sum_of_candidates() const;
  void select();
  void keep_top_k();
  void gather_top_p();
  void keep_top_p(double total);
  double sum_by_rows();
  std::int32_t draw_from_all(double draw);
  std::int32_t draw_from_candidates(double draw) const;

  SamplingOptions options_;
  Adjustments adjustments_;
  std::unordered_map<std::int32_t, std::int32_t> generated_;  ///< times each token was
  std::uint64_t key_;
  std::vector<char> seen_;                ///< [vocab_size]
  std::vector<std::int32_t> text_;        ///< the tokens of seen_, each once
  std::span<const float> scores_;         ///< [vocab_size] logits, after what changes them
  std::vector<float> adjusted_;           ///< [vocab_size] scratch
  std::vector<float> highs_;              ///< the highest score of each block
  float highest_ = 0;                     ///< of all
  bool all_ = false;                      ///< every token may follow; else the candidates
  std::vector<Candidate> candidates_;     ///< by id
  std::vector<float> scaled_, row_sums_;  ///< scratch
};

/// One sequence of a step.
struct Choice {
  Sampler* sampler = nullptr;  ///< its own
  std::span<const float> logits = {};
  std::int64_t step = 0;
  std::int32_t token = -1;  ///< what `choose` writes
};

/// Those of a step side by side: the same tokens as one by one.
/// @throws what the first of them throws, when all are done
void choose(std::span<Choice> choices, int num_threads);

struct TokenLogProbability {
  std::int32_t token = 0;
  double log_probability = 0;
};

/// Of what the model says, before temperature, penalties and filters, within 1e-6.
struct LogProbabilities {
  double chosen = 0;
  std::vector<TokenLogProbability> top;  ///< falling, the first of equal ones first
};

/// @param num_top at most the vocabulary's size
/// @throws Error{out_of_range} for a token that is not in the vocabulary, else as choose
LogProbabilities log_probabilities(std::span<const float> logits, std::int32_t token,
                                   std::int64_t num_top);

}  // namespace tessera::lm
